#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts faults into the series, one by one, and has the tests find them.

    faults.py [FAULT ...]

Each file of kernel/faults says what its fault is and which runs of check.py
may find it. The runs pass on the series as it is first; then each fault is
built, and its runs go one after the other until one fails. The exit code is 0
if each fault is found. The table is in $KERNEL_LOGS/faults.rst.
"""

import argparse
from collections.abc import Iterable, Iterator
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time

WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
# Beside the logs of a kernel that is right; check reads this when imported.
os.environ.setdefault('KERNEL_LOGS', str(WORK / 'logs-faults'))
# A fault may stop a guest; the runs here end within a minute or two.
os.environ.setdefault('GUEST_TIMEOUT', '600')

import check  # noqa: E402
import table  # noqa: E402

FAULTS = check.KERNEL / 'faults'
CAUGHT_BY = 'Caught-by:'
#: What is printed of a line of a log.
WIDTH = 60


class Refused(Exception):
    """A file of kernel/faults, or an argument, is wrong."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault and the tests for it.

    :ivar text: what is wrong
    :ivar runs: those that may find it, in the order in which they are tried
    :ivar patch: on top of the series
    """

    name: str
    text: str
    runs: tuple[check.Run, ...]
    patch: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Found:
    """How a fault was found.

    :ivar by: the run, or '' if none found it
    :ivar said: the first line that tells
    """

    fault: Fault
    by: str
    said: str
    seconds: float


def run_of(name: str) -> check.Run:
    """A run of check.py; its short form, if it has one.

    :raises Refused: if there is none
    """
    found = [run for run in check.RUNS if run.log == name and run.kernel]
    for run in sorted(found, key=lambda run: run.when == 'full'):
        return run
    raise Refused(f'{name} is no run of a guest in check.py')


def read(patch: pathlib.Path) -> Fault:
    """Read a file of kernel/faults.

    :raises Refused: if it does not say what it is
    """
    text, _, _ = patch.read_text().partition('\n--- ')
    lines = [line for line in text.splitlines() if line]
    names = [
        name
        for line in lines
        if line.startswith(CAUGHT_BY)
        for name in line.removeprefix(CAUGHT_BY).split()
    ]
    said = ' '.join(line for line in lines if not line.startswith(CAUGHT_BY))
    if not names or not said:
        raise Refused(f'{patch.name}: no text, or no line {CAUGHT_BY}')
    return Fault(patch.stem, said, tuple(map(run_of, names)), patch)


def chosen(names: list[str]) -> list[Fault]:
    """The faults of these names, or all.

    :raises Refused: if there is none of a name
    """
    faults = {each.stem: each for each in sorted(FAULTS.glob('*.patch'))}
    unknown = sorted(set(names) - set(faults))
    if unknown:
        raise Refused(f'no such fault: {unknown}; there are {list(faults)}')
    return [read(faults[name]) for name in names or faults]


def build(fault: Fault) -> str:
    """Build the kernel with a fault; return its image.

    :raises Refused: if it cannot be built
    """
    done = subprocess.run(
        [check.SCRIPTS / 'build.sh', 'hcbs', 'test', fault.patch],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise Refused(f'{fault.name} cannot be built')
    return done.stdout.strip()


def execute(
    runs: Iterable[check.Run], images: dict[str, str]
) -> Iterator[check.Line]:
    """Run, and compare what can be by then."""
    slots = check.Slots(1)
    logs = set()
    for run in runs:
        yield check.execute(run, images, slots)
        logs.add(run.log)
        for comparison in check.COMPARISONS:
            if run.log in comparison.logs and logs.issuperset(comparison.logs):
                yield check.compare(comparison)


def first_words(line: check.Line) -> str:
    """The first line of a log, or of a table, that tells what is wrong."""
    for name in (f'{line.name}.log', f'{line.group}-{line.name}.txt'):
        path = check.LOGS / name
        for text in table.read(str(path)) if path.exists() else []:
            if check.tells(text) or '<--' in text:
                return ' '.join(text.split())[:WIDTH]
    return f'{line.group} {line.name}'


def look_for(fault: Fault, images: dict[str, str]) -> Found:
    """Build a kernel with a fault, and run its tests until one fails.

    :param images: of the kernels without a fault
    :raises Refused: if it cannot be built
    """
    begin = time.monotonic()
    image = build(fault)
    by = said = ''
    for line in execute(fault.runs, images | {'hcbs': image}):
        if not line.ok:
            by, said = line.name, first_words(line)
            break
    # Nobody else has use for this kernel.
    shutil.rmtree(pathlib.Path(image).parent)
    return Found(fault, by, said, time.monotonic() - begin)


def report(found: Iterable[Found]) -> str:
    """The table for the manual."""
    lines = ['.. list-table::', '   :header-rows: 1', '']
    rows = [('Fault', 'Found by', 'First line that says so')]
    rows += [
        (each.fault.text, each.by or '**none**', f'``{each.said}``')
        for each in found
    ]
    for row in rows:
        for number, cell in enumerate(row):
            lines.append(f'   {"  " if number else "* "}- {cell}')
    return '\n'.join(lines) + '\n'


def prepare(faults: Iterable[Fault]) -> dict[str, str]:
    """Build the kernels without a fault, and see that all runs pass there.

    :returns: kernel -> image
    :raises Refused: if that is not so
    """
    runs = {run.log: run for fault in faults for run in fault.runs}
    images = {}
    for kernel in dict.fromkeys(run.kernel or '' for run in runs.values()):
        line, images[kernel] = check.build(kernel)
        if not line.ok:
            raise Refused(f'{kernel} cannot be built')
    bad = [line for line in execute(runs.values(), images) if not line.ok]
    if bad:
        words = ', '.join(f'{line.name} {line.note}' for line in bad)
        raise Refused(f'FAILED without any fault: {words}')
    return images


def main() -> int:
    """Look for all faults.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('faults', nargs='*', metavar='FAULT')
    try:
        faults = chosen(parser.parse_args().faults)
        check.LOGS.mkdir(parents=True, exist_ok=True)
        images = prepare(faults)
        found = []
        for fault in faults:
            found.append(look_for(fault, images))
            last = found[-1]
            word = f'found by {last.by}' if last.by else 'NOT FOUND'
            check.say(f'{word} in {last.seconds:.0f} s: {fault.name}')
    except Refused as err:
        print(f'faults: {err}', file=sys.stderr)
        return 2
    (check.LOGS / 'faults.rst').write_text(report(found))
    missed = [each.fault.name for each in found if not each.by]
    check.say(f'{len(found)} faults, {len(missed)} not found: {missed}')
    return int(bool(missed))


if __name__ == '__main__':
    sys.exit(main())
