#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break the series on purpose, and see that the tests notice.

    faults.py [FAULT ...]

Each file of tests/faults/ is a fault: what it breaks, the group of tests that
has to catch it, and a patch on top of the series. The kernel with the fault is
built, and runs what check.py runs of that group on the HCBS kernel. A fault
that none of them catches has survived. The exit code is 0 if none has.
"""

import argparse
import dataclasses
import fcntl
import os
import pathlib
import subprocess
import sys
import time

import check

FAULTS = check.KERNEL / 'tests' / 'faults'
# A kernel with a fault may hang.
TIMEOUT = '600'
SILENT = 'did not start'


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, by the name of its file.

    :ivar breaks: what it does
    :ivar group: of the tests that have to catch it
    """

    name: str
    breaks: str
    group: str


@dataclasses.dataclass
class Verdict:
    """The outcome for a fault.

    :ivar said: the line that told, or why there is none
    """

    fault: Fault
    caught: bool
    seconds: float
    said: str


def read(path: pathlib.Path) -> Fault:
    """The fault in a file."""
    head = path.read_text().split('\n\n', 1)[0]
    said = dict(line.split(': ', 1) for line in head.splitlines())
    return Fault(path.stem, said['Breaks'], said['Caught by'])


def faults() -> list[Fault]:
    """All of them, group by group."""
    found = [read(path) for path in FAULTS.glob('*.patch')]
    return sorted(found, key=lambda fault: (fault.group, fault.name))


def runs_of(group: str) -> list[check.Run]:
    """The runs that need the faulty kernel alone, and no tools.

    They end at the first check that fails.
    """
    return [
        dataclasses.replace(run, arguments=(*run.arguments, 'until=failure'))
        for run in check.selected(False, [group])
        if run.kernel == 'hcbs' and run.environment[:1] != check.TOOLS
    ]


def why(run: check.Run) -> str:
    """The line of a log that tells why the run failed."""
    said = check.lines_of(run.log)
    for line in said:
        if check.tells(line):
            return f'{run.log}: {line.strip()}'
    return f'{run.log}: {"no end" if said else SILENT}'


def catch(fault: Fault, image: str) -> str:
    """Run the group; the line that tells of the fault, or nothing."""
    done = set()
    for run in runs_of(fault.group):
        if not check.execute(run, {'hcbs': image}, check.Slots(1)).ok:
            return why(run)
        done.add(run.log)
        for comparison in check.COMPARISONS:
            if run.log not in comparison.logs or not done.issuperset(
                comparison.logs
            ):
                continue
            logs = [check.lines_of(log) for log in comparison.logs]
            out, ok = comparison.judge(logs[0], logs[1])
            if not ok:
                marked = [line for line in out if '<--' in line]
                return f'{comparison.name}: {(marked or out)[0]}'
    return ''


def attempt(fault: Fault) -> Verdict:
    """Build a fault, and let the tests catch it."""
    begin = time.monotonic()
    check.LOGS = LOGS / fault.name
    check.LOGS.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [check.SCRIPTS / 'build.sh', 'hcbs', 'test', fault.name],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if built.returncode:
        said, caught = 'does not build', False
    else:
        said = catch(fault, built.stdout.strip())
        # A guest that says nothing is no sign of a test that notices.
        caught = bool(said) and not said.endswith(SILENT)
    return Verdict(fault, caught, time.monotonic() - begin, said or '-')


def summary(verdicts: list[Verdict]) -> list[str]:
    """The table at the end."""
    out = [f'{"fault":<22} {"group":<12} {"verdict":<8} {"time":>6}  line']
    for v in verdicts:
        out.append(
            f'{v.fault.name:<22} {v.fault.group:<12} '
            f'{"caught" if v.caught else "SURVIVED":<8} {v.seconds:>5.0f}s  '
            f'{" ".join(v.said.split())[:120]}'
        )
    alive = sum(not v.caught for v in verdicts)
    out.append(
        f'{len(verdicts)} faults: '
        + (f'{alive} SURVIVED' if alive else 'all caught')
    )
    return out


LOGS = check.LOGS / 'faults'


def main() -> int:
    """Attempt the faults that the arguments name, or all."""
    known = {fault.name: fault for fault in faults()}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('faults', nargs='*', metavar='FAULT')
    options = parser.parse_args()
    unknown = set(options.faults) - set(known)
    if unknown:
        parser.error(f'no such fault: {sorted(unknown)}')
    # Those of the environment go before.
    os.environ.setdefault('GUEST_TIMEOUT', TIMEOUT)
    LOGS.mkdir(parents=True, exist_ok=True)
    verdicts = []
    with (LOGS / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in options.faults or known:
            verdict = attempt(known[name])
            verdicts.append(verdict)
            word = 'caught' if verdict.caught else 'SURVIVED'
            check.say(f'{word} in {verdict.seconds:.0f} s: {name}')
        text = '\n'.join(summary(verdicts))
        (LOGS / 'summary.txt').write_text(text + '\n')
    check.say(text)
    return any(not verdict.caught for verdict in verdicts)


if __name__ == '__main__':
    sys.exit(main())
