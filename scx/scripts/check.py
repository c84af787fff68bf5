#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of scx/ on Debian's kernel in QEMU, and sum them up.

    check.py [GROUP ...]

Logs and results.txt are in $SCX_LOGS, by default logs/ of the work directory.
SETS is the number of random sets, which are drawn from SEED, STRESS_S the
seconds of stress by the guest's clock, JOBS the number of guests at a time.
The exit code is 0 if all passed, 1 if not, 69 if there is no kernel to be had.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.append(str(SCRIPTS.parents[1] / 'kernel/scripts'))

import complaints  # noqa: E402

KERNEL_WORK = os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
WORK = pathlib.Path(os.environ.get('NOVA_RT_SCX', f'{KERNEL_WORK}/scx'))
LOGS = pathlib.Path(os.environ.get('SCX_LOGS', WORK / 'logs'))
SETS = int(os.environ.get('SETS', '20'))
STRESS_S = int(os.environ.get('STRESS_S', '5'))
# Of one guest. A second by its clock takes 4 to 9 s, more beside other work.
TIMEOUT = os.environ.get(
    'GUEST_TIMEOUT', str(1200 + 30 * SETS + 60 * STRESS_S)
)
JOBS = int(os.environ.get('JOBS', os.cpu_count() or 1))
UNAVAILABLE = 69
SEED = int(os.environ.get('SEED', '1'))
KERNELS = SCRIPTS.parent / 'kernels'
DEFAULT = '7.3.4-amd64'


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a guest.

    :ivar group: name that selects it
    :ivar test: the guest's test with its argument
    :ivar kernel: a file of kernels/
    :ivar argument: of the guest's kernel, in addition
    """

    group: str
    test: str
    cpus: int = 1
    kernel: str = DEFAULT
    argument: str = ''

    @property
    def name(self) -> str:
        """The test, and what is unusual about its kernel."""
        kernel = '' if self.kernel == DEFAULT else self.kernel
        cpus = f'{self.cpus} CPUs' if self.cpus > 2 else ''
        return ' '.join(filter(None, (self.test, cpus, kernel, self.argument)))

    @property
    def log(self) -> pathlib.Path:
        """The guest's log."""
        return LOGS / f'{re.sub("[^a-z0-9.]+", "-", self.name)}.log'


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results in a log.

    :ivar sums: the lines of supply, one for each table row
    :ivar compared: what ordinary tasks have, beside what EEVDF gives them
    :ivar stress: one line about a storm of changes, or an empty one
    :ivar reasons: why it failed; empty if it passed
    :ivar skipped: the archive has no such kernel any more
    """

    checks: int
    sums: list[str]
    compared: list[str]
    stress: str
    reasons: list[str]
    skipped: bool = False

    @property
    def verdict(self) -> str:
        """A word for it, and why it is not one of the usual two."""
        if self.skipped:
            return 'skipped: not in the archive'
        return 'FAILED' if self.reasons else 'passed'


def expectation(kernel: str) -> str:
    """Whether a kernel is usable, as its file says."""
    found = re.search(
        '^expect=(usable|unusable)$', (KERNELS / kernel).read_text(), re.M
    )
    assert found, kernel
    return found[1]


RUNS = [
    Run('supply', 'supply,oooo'),
    Run('supply', 'supply,oooof'),
    Run('supply', 'control,oooo'),
    Run('supply', 'control,oooof'),
    Run('random', f'random,{SEED}:{SETS}:oooo'),
    Run('random', f'random,{SEED}:{SETS}:oooof'),
    Run('random', f'random-control,{SEED}:{SETS}:oooo'),
    Run('random', f'random-control,{SEED}:{SETS}:oooof'),
    Run('protocol', 'protocol', cpus=2),
    Run('protocol', 'strangers', cpus=2),
    Run('faults', 'kill'),
    Run('faults', 'eject'),
    Run('attacks', 'attack,600'),
    Run('attacks', 'dodge', cpus=2),
    Run('attacks', 'forks,90'),
    Run('attacks', 'forks,0', argument='rcu_nocbs=all'),
    Run('crowd', 'crowd,50'),
    Run('crowd', 'many,1500'),
    Run('ordinary', 'ordinary'),
    Run('ordinary', 'ordinary,2', cpus=2),
    Run('limits', 'limits'),
    Run('limits', 'limits,2', cpus=2),
    Run('limits', 'limits', kernel='6.18.15-amd64'),
    Run('limits', 'paupers,300'),
    Run('stress', f'stress,{STRESS_S}:{SEED}', cpus=4),
    Run('stress', f'hotplug,{STRESS_S}:{SEED}', cpus=4),
    Run('stress', f'cycle,{20 * STRESS_S}', cpus=2),
    Run('stress', 'cycle,20', cpus=2, kernel='6.18.15-amd64'),
    Run('four', 'wide', cpus=4),
    Run('four', f'random,{SEED}:2:oooooooo', cpus=4),
    Run('four', 'attack,200', cpus=4, argument='rcu_nocbs=all'),
    Run('four', 'limits,4', cpus=4),
    *(
        Run('kernels', f'kernel,{expectation(path.name)}', kernel=path.name)
        for path in sorted(KERNELS.iterdir())
    ),
    Run('kernels', 'kernel,usable', argument='lockdown=integrity'),
]
GROUPS = list(dict.fromkeys(run.group for run in RUNS))


def judge(lines: list[str], code: int = 0) -> Outcome:
    """Whether a guest's test passed: all checks, to the end, no complaint."""
    failed = [line for line in lines if line.startswith('FAIL')]
    complained = complaints.find(lines)
    stress = [
        f'{line[5:]}, complaints {len(complained)}'
        for line in lines
        if line[5:].startswith('STRESS ')
    ]
    done = [line for line in lines if line.startswith('DONE')]
    reasons = failed + complained
    if not done:
        reasons.append(f'it did not come to its end (exit code {code})')
    elif ' failures 0 ' not in f'{done[-1]} ' and not failed:
        reasons.append(done[-1])
    return Outcome(
        sum(line.startswith('ok ') for line in lines),
        [line for line in lines if re.match('(ok  |FAIL) SUM ', line)],
        [line for line in lines if line[5:].startswith('ORDINARY ')],
        ''.join(stress),
        reasons,
    )


def row(line: str) -> str:
    """A row of the table of supply."""
    found = re.search(
        r'SUM (.+) (\w+): sets (\d+) reservations (\d+) periods (\d+) '
        r'short (\d+) over (\d+) broken (\d+) worst ([\d.]+)',
        line,
    )
    assert found
    name, beside, *numbers, worst = found.groups()
    return f'{name:<15} {beside:<7}' + ''.join(
        f'{number:>13}' for number in (*numbers, worst)
    )


HEADER = f'{"test":<15} {"beside":<7}' + ''.join(
    f'{name:>13}'
    for name in (
        'sets', 'reservations', 'periods', 'short', 'over', 'broken',
        'worst of Q',
    )
)  # fmt: skip


def execute(run: Run) -> tuple[Outcome, float]:
    """Run a guest; return what its log says, and the seconds it took."""
    began = time.monotonic()
    run.log.unlink(missing_ok=True)
    code = subprocess.run(
        [SCRIPTS / 'guest.sh', str(run.cpus), run.log, run.test, run.argument],
        check=False,
        env=os.environ
        | {'SCX_KERNEL': str(KERNELS / run.kernel), 'GUEST_TIMEOUT': TIMEOUT},
        stdout=subprocess.DEVNULL,
    ).returncode
    if code == UNAVAILABLE and run.kernel != DEFAULT:
        return Outcome(
            0, [], [], '', [], skipped=True
        ), time.monotonic() - began
    text = run.log.read_text(errors='replace') if run.log.exists() else ''
    outcome = judge([line.rstrip('\r') for line in text.split('\n')], code)
    return outcome, time.monotonic() - began


def summary(outcomes: dict[Run, tuple[Outcome, float]]) -> list[str]:
    """All results, with the tables."""
    out = [HEADER]
    out += [row(s) for o, _ in outcomes.values() for s in o.sums]
    out += [o.stress for o, _ in outcomes.values() if o.stress]
    for run, (outcome, _) in outcomes.items():
        if outcome.compared:
            out += ['', f'{run.name} on {run.cpus} CPUs']
            out += [line[14:] for line in outcome.compared]
    out += ['', f'{"group":<10} {"test":<34} {"checks":>6} {"s":>5} verdict']
    for run, (outcome, seconds) in outcomes.items():
        out.append(
            f'{run.group:<10} {run.name:<34} {outcome.checks:>6} '
            f'{seconds:>5.0f} {outcome.verdict}'
        )
        out += [f'    {reason}' for reason in outcome.reasons[:5]]
    return out


def main() -> int:
    """Run the groups that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument('groups', nargs='*', metavar='GROUP')
    groups = parser.parse_args().groups or GROUPS
    if unknown := set(groups) - set(GROUPS):
        parser.error(f'no group {", ".join(unknown)}; {", ".join(GROUPS)}')
    LOGS.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [SCRIPTS / 'build.sh'], check=False, stdout=subprocess.DEVNULL
    ).returncode
    if built:
        return UNAVAILABLE if built == UNAVAILABLE else 1
    runs = [run for run in RUNS if run.group in groups]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = dict(zip(runs, pool.map(execute, runs), strict=True))
    out = summary(outcomes)
    (LOGS / 'results.txt').write_text('\n'.join(out) + '\n')
    print('\n'.join(out))
    return any(outcome.reasons for outcome, _ in outcomes.values())


if __name__ == '__main__':
    sys.exit(main())
