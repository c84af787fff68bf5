# SPDX-License-Identifier: Apache-2.0
"""The Tempest plug-in of nova_rt on the lab, and a look at its remains.

Each of its tests sees to its own servers; here the whole lab is looked at,
before the first test and after the last. Runs inside the lab's namespaces.
"""

import importlib.util
import pathlib
import subprocess

from lab import catalog, cloud, paths, service, tempest, world
from lab.console import LabError, say

REGEX = '^nova_rt_tempest_plugin'
# As many as the smallest machine has CPUs.
WORKERS = 2

_PACKAGE = 'nova_rt_tempest_plugin'


def choice(regex: str | None, include_list: pathlib.Path | None) -> list[str]:
    """Return the arguments of tempest that choose tests."""
    if include_list is None:
        return [f'--regex={regex or REGEX}']
    # It would run the tests of both.
    if regex is not None:
        raise LabError('either --regex or --include-list')
    return [f'--include-list={include_list}']


def run(chosen: list[str], workers: int) -> int:
    """Run tests of the plug-in; print each, and the counts at the end.

    :param chosen: which tests; see :func:`choice`.
    :return: 1 when a test failed, none ran, or something is left.
    :raises LabError: when the plug-in is not installed.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        raise LabError(f'{_PACKAGE} is not installed in {paths.VENV}')
    connection = catalog.connect()
    with cloud.lock():
        tempest.write(connection)
    before = world.look(connection)
    done = subprocess.run(
        tempest.command(chosen, workers),
        stdin=subprocess.DEVNULL,
        env=service.base_environment(),
        cwd=tempest.WORKSPACE,
        check=False,
    )
    _save()
    left = world.left(connection, before)
    for name, (was, now) in left.items():
        say(f'LEFT BEHIND: {name}: {was} before, {now} now')
    if not left:
        say('nothing is left behind')
    return 1 if done.returncode or left else 0


def _save() -> None:
    """Keep each test's outcome, time and output."""
    paths.RESULTS.mkdir(parents=True, exist_ok=True)
    with (paths.RESULTS / 'tempest-plugin.subunit').open('wb') as stream:
        subprocess.run(
            [f'{paths.VENV}/bin/stestr', 'last', '--subunit'],
            stdout=stream,
            env=service.base_environment(),
            cwd=tempest.WORKSPACE,
            check=False,
        )
