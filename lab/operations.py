# SPDX-License-Identifier: Apache-2.0
"""The manual's table of operations and their effect on a reservation.

:mod:`lab.tests.test_operations` finds the rows. ``python -m lab.operations``
copies them into the manual, and writes the page with the table. Rows are made
of words that are the same for each run: host A is the one on which a server
was first, B the other.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import json
import pathlib
import sys
from typing import Any

from lab import paths

#: File in which a run of the tests leaves its rows.
FOUND = paths.RESULTS / 'operations.json'
_ADMIN = paths.CHECKOUT / 'doc' / 'source' / 'admin'
#: Those that the manual shows.
COMMITTED = _ADMIN / 'operations.json'
PAGE = _ADMIN / 'operations.rst'
COMMAND = 'make operations'

NONE = 'none'
DONE = 'done'
# Columns of the page that are a field of State.
_COLUMNS = ('host', 'placement', 'record', 'kernel', 'disk')

_HEAD = f"""\
.. Written by "{COMMAND}" from operations.json. Do not edit.

==========================
Operations and their trace
==========================

What each operation of Nova does to the reservation of a server, as seen by a
test on two hosts. ``{COMMAND}`` runs that test
(``lab/tests/test_operations.py``) on a lab with two computes and writes this
page.

The server is on host A at first; B is the other host. A cell with several
values has the state before the operation and the state after it. For a resize
or a migration, the value between them is the state that waits to be confirmed
or reverted; for an evacuation, it is the state while host A is dead. A cell
with one value did not change.

Outcome
   What became of the request, and the status of the server.
Placement
   The amount of ``CUSTOM_RT_BANDWIDTH`` in ppm of a CPU, by host. "For the
   move" is what the migration holds until it is confirmed or reverted. The
   test also sees that the resource trackers of both hosts have claimed the
   same amounts in each state.
Record
   What the system metadata of the server says, see :doc:`records`. "Old" is
   what the source of a move holds.
Kernel
   The reservation of the container's control group. A server that does not run
   has no group.
Disk
   "Kept": a file that was written to the root disk before the operation is
   there. "As the image": it is not.
"""
_EMPTY = 'No run of the test was noted yet.\n'


@dataclasses.dataclass(frozen=True)
class State:
    """All that there is of a server at one moment, in words.

    :ivar status: Nova's
    :ivar claims: of the hosts' trackers for it
    """

    status: str = NONE
    host: str = NONE
    placement: str = NONE
    claims: str = NONE
    record: str = NONE
    kernel: str = NONE
    disk: str = NONE


NOTHING = State()


@dataclasses.dataclass(frozen=True)
class Row:
    """An operation and its effect.

    :ivar operation: its name
    :ivar outcome: of the request
    :ivar during: for one that waits for a second request, its state then
    """

    operation: str
    outcome: str
    before: State
    during: State | None
    after: State

    @property
    def states(self) -> list[State]:
        """All of them, in their order."""
        found = [self.before, self.during, self.after]
        return [each for each in found if each is not None]


# Words


def amounts(held: Mapping[str, int]) -> str:
    """Return in words how many ppm each host holds, hosts in their order."""
    words = [f'{ppm} on {host}' for host, ppm in sorted(held.items()) if ppm]
    return ', '.join(words) or NONE


def placed(own: Mapping[str, int], move: Mapping[str, int]) -> str:
    """Put allocations into words.

    :param own: host -> ppm, of the server
    :param move: the same of its migration
    """
    if not any(move.values()):
        return amounts(own)
    return f'{amounts(own)}; {amounts(move)} for the move'


def on_cpus(reservation: object, cpus: int) -> str:
    """Put a reservation and its number of CPUs into words."""
    return f'{reservation} on {cpus or "no"} CPU{"" if cpus == 1 else "s"}'


def slots(current: str, *, old: str | None = None, new: str | None = None
          ) -> str:  # fmt: skip
    """Put the slots of a server into words.

    :param old: None if there is no such slot
    :param new: the same
    """
    beside = [
        f'{name} {text}'
        for name, text in (('old', old), ('new', new))
        if text is not None
    ]
    return '; '.join([current, *beside])


# Rows as JSON


def load(path: pathlib.Path) -> list[Row]:
    """Read rows; none where there is no file."""
    if not path.exists():
        return []
    return [_row(each) for each in json.loads(path.read_text())]


def _row(fields: dict[str, Any]) -> Row:
    during = fields['during']
    return Row(
        fields['operation'],
        fields['outcome'],
        State(**fields['before']),
        None if during is None else State(**during),
        State(**fields['after']),
    )


def save(path: pathlib.Path, rows: Iterable[Row]) -> None:
    """Write rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump(rows))


def dump(rows: Iterable[Row]) -> str:
    """Return rows as JSON."""
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + (
        '\n'
    )


def add(rows: Iterable[Row], row: Row, order: Iterable[str]) -> list[Row]:
    """Return rows with another, which replaces one of its name.

    :param order: all names; rows of other names are dropped
    """
    found = {each.operation: each for each in rows} | {row.operation: row}
    return [found[name] for name in order if name in found]


def differences(committed: Row | None, found: Row) -> list[str]:
    """List the differences between a run and the manual.

    :param committed: None if it has no such row
    """
    if committed is None:
        return [f'the manual has no row "{found.operation}"']
    left, right = dataclasses.asdict(committed), dataclasses.asdict(found)
    told = []
    for name in left:
        if isinstance(left[name], dict) and isinstance(right[name], dict):
            told += [
                f'{name}, {field}: the manual has "{text}", found was '
                f'"{right[name][field]}"'
                for field, text in left[name].items()
                if text != right[name][field]
            ]
        elif left[name] != right[name]:
            told.append(
                f'{name}: the manual has {left[name]!r}, found was '
                f'{right[name]!r}'
            )
    return told


# The page


def render(rows: list[Row]) -> str:
    """Return the page."""
    lines = [_HEAD]
    if not rows:
        return '\n'.join([*lines, _EMPTY])
    lines += ['.. list-table::', '   :header-rows: 1']
    lines += ['   :widths: 18 14 8 18 18 14 10', '']
    lines += _cells(
        ['Operation', 'Outcome', *(name.capitalize() for name in _COLUMNS)]
    )
    for row in rows:
        status = _path([state.status for state in row.states])
        cells = [
            _path([getattr(state, name) for state in row.states])
            for name in _COLUMNS
        ]
        lines += _cells([row.operation, f'{row.outcome}: {status}', *cells])
    return '\n'.join([*lines, ''])


def _path(values: list[str]) -> str:
    return values[0] if len(set(values)) == 1 else ' -> '.join(values)


def _cells(texts: list[str]) -> list[str]:
    first, *others = texts
    return [f'   * - {first}', *(f'     - {text}' for text in others)]


def main() -> int:
    """Put the rows of the last run into the manual.

    :return: 1 if there is nothing.
    """
    rows = load(FOUND)
    if not rows:
        print(f'{FOUND} has no rows', file=sys.stderr)
        return 1
    save(COMMITTED, rows)
    PAGE.write_text(render(rows))
    print(f'{len(rows)} rows in {PAGE}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
