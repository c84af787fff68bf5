# SPDX-License-Identifier: Apache-2.0
"""The manual's table of faults and their outcomes.

The tests that :mod:`lab.tests.watched` helps leave their figures behind.
``python -m lab.faults`` copies them into the manual and writes the page.
"""

from collections.abc import Mapping
import json
import pathlib
import shutil
import sys

from lab import paths
from lab.measure import machine

#: Directory in which each test leaves its figures, in a file of its name.
FIGURES = paths.RESULTS / 'faults'
_ADMIN = paths.CHECKOUT / 'doc' / 'source' / 'admin'
#: Those that the manual shows.
COMMITTED = _ADMIN / 'faults.json'
PAGE = _ADMIN / 'faults.rst'
COMMAND = 'make faults'

#: Faults that must not occur; each has a column.
WRONGS = ('over-commitments', 'losses', 'leaks')
_SAMPLED = ('samples', 'longest gap, ms')
_REPAIRED = 'repaired by the audit'

_HEAD = f"""\
.. Written by "{COMMAND}" from faults.json. Do not edit.

======
Faults
======

What tests have broken on a lab with real containers, and what came of it.
``{COMMAND}`` runs them and writes this page; it takes 70 minutes.
See :ref:`what each module does <tests-of-faults>`.
"""
_LEGEND = """\
Done
   How often the test did what it is about, and what it did on the way.
Samples
   How often the kernel was read while the test ran, and the longest time
   between two readings.
Over-commitments
   Samples in which a CPU had more reserved than its capacity.
Losses
   Samples in which a server that nobody touched held anything else than its
   reservation. Tests that take it away on purpose have none to count.
Leaks
   Claims, allocations, control groups, mounts, files and loop devices that
   were left.
Audit
   How often ``nova-rt-manage audit --repair`` had to help, so that nothing was
   left.
"""

Figures = Mapping[str, Mapping[str, int]]


def collect(directory: pathlib.Path) -> dict[str, dict[str, int]]:
    """Read the figures of all tests.

    :return: test -> name -> figure
    """
    return {
        file.stem: json.loads(file.read_text())
        for file in sorted(directory.glob('*.json'))
    }


def wrong(figures: Figures) -> list[str]:
    """Return a line for each figure of WRONGS that is not zero."""
    return [
        f'{test}: {found[name]} {name}'
        for test, found in figures.items()
        for name in WRONGS
        if found.get(name)
    ]


def missing(figures: Figures, before: Figures) -> list[str]:
    """Return a line for each test of the manual that has not run."""
    return [
        f'{test}: it did not run; if it is gone, remove it from {COMMITTED}'
        for test in before
        if test not in figures
    ]


def render(where: str, figures: Figures) -> str:
    """Return the page.

    :param where: the machine on which the tests ran
    """
    lines = [_HEAD, f'The machine: {where}.', '', _LEGEND]
    lines += ['.. list-table::', '   :header-rows: 1']
    lines += ['   :widths: 30 25 15 10 8 7 5', '']
    lines += _cells(
        ['Test', 'Done', 'Samples', *(w.capitalize() for w in WRONGS), 'Audit']
    )
    for test, found in figures.items():
        done = [
            f'{name}: {number}'
            for name, number in found.items()
            if name not in (*WRONGS, *_SAMPLED, _REPAIRED)
        ]
        samples, gap_ms = (found[name] for name in _SAMPLED)
        wrongs = [str(found.get(name, 0)) for name in WRONGS]
        lines += _cells(
            [
                f'``{test}``',
                ', '.join(done),
                f'{samples}, at most {gap_ms} ms apart',
                *wrongs,
                str(found.get(_REPAIRED, 0)),
            ]
        )
    total = {
        name: sum(found.get(name, 0) for found in figures.values())
        for name in ('tries', 'kills', 'samples', *WRONGS)
    }
    words = ', '.join(f'{name}: {number}' for name, number in total.items())
    lines += ['', f'In all, {words}.']
    return '\n'.join([*lines, ''])


def _cells(texts: list[str]) -> list[str]:
    first, *others = texts
    return [f'   * - {first}', *(f'     - {text}' for text in others)]


def main(arguments: list[str]) -> int:
    """Put the figures of the last run into the manual; or forget them.

    :return: 1 if something must not be, or is missing
    """
    if arguments == ['--forget']:
        shutil.rmtree(FIGURES, ignore_errors=True)
        return 0
    figures = collect(FIGURES)
    problems = [
        *wrong(figures),
        *missing(figures, json.loads(COMMITTED.read_text())['tests']),
    ]
    if problems:
        print('\n'.join(problems), file=sys.stderr)
        return 1
    where = machine.describe()
    committed = {'machine': where, 'tests': figures}
    COMMITTED.write_text(json.dumps(committed, indent=1) + '\n')
    PAGE.write_text(render(where, figures))
    print(f'{len(figures)} tests in {PAGE}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
