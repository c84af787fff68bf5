# SPDX-License-Identifier: Apache-2.0
"""A clock that jumps cannot change what is admitted, applied or verified.

Whatever decides or waits there has no wall clock at all: the time of day is
for reports, and for people who read them.
"""

import ast
import pathlib

from oslotest import base

import nova_rt

ROOT = pathlib.Path(nova_rt.__file__).parent
#: Names that tell the time of day, whatever they are imported as part of.
_WALL = {
    'time', 'time_ns', 'now', 'utcnow', 'today', 'utcnow_ts', 'is_older_than',
    'is_newer_than', 'is_soon',
}  # fmt: skip
_CLOCKS = {'time', 'datetime', 'date', 'timeutils'}
#: Modules that say when something happened, or was sent or received.
_REPORTING = {
    'compute/counters.py', 'compute/notifications.py', 'conductor/manager.py',
    'conductor/metrics.py', 'conductor/queue.py', 'rest/sources.py',
}  # fmt: skip
#: Control groups have no other clock. Where it jumps, a group without tasks
#: stays longer, or the process in its name alone says that it is in use.
_AGES = {'privsep/kernel.py'}
#: Modules about files of deleted servers: there is nothing to lose.
_DELETED = {'moves/orphaned_instances.py'}
#: Conductors share no other clock. Where it jumps, a host is asked for a
#: change later, or a second time, which changes nothing.
_LEASES = {'conductor/changes.py'}
_APART = ('cmd/', 'db/', 'manage/', 'tests/')


def find_wall_clocks(text):
    """Return the lines of calls that ask for the time of day."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _WALL
        and _last(node.func.value) in _CLOCKS
    ]


def _last(node):
    return getattr(node, 'attr', getattr(node, 'id', None))


class WallClockTest(base.BaseTestCase):
    def test_only_reports_and_ages_have_one(self):
        found = set()
        for path in sorted(ROOT.rglob('*.py')):
            name = str(path.relative_to(ROOT))
            if not name.startswith(_APART) and find_wall_clocks(
                path.read_text()
            ):
                found.add(name)
        self.assertEqual(_REPORTING | _AGES | _DELETED | _LEASES, found)

    def test_they_are_found(self):
        for text in (
            'time.time()',
            'datetime.datetime.now(x)',
            'timeutils.utcnow()',
        ):
            self.assertEqual([1], find_wall_clocks(text), text)
        for text in ('time.monotonic()', 'x.now()', 'time.sleep(1)'):
            self.assertEqual([], find_wall_clocks(text), text)
