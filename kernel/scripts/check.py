#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of kernel/ and sum them up.

    check.py [--full] [GROUP ...]

Builds the kernels, runs the guests as many at a time as there are CPUs, and
prints the tables and a summary. Logs and tables are in $KERNEL_LOGS, by
default logs/ of the work directory. The exit code is 0 if all passed.
"""

import argparse
from collections.abc import Callable
import concurrent.futures
import dataclasses
import fcntl
import os
import pathlib
import subprocess
import sys
import threading
import time

import complaints
import simulate
import suite
import table

KERNEL = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = KERNEL / 'scripts'
WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
LOGS = pathlib.Path(os.environ.get('KERNEL_LOGS', WORK / 'logs'))
SLOTS = int(os.environ.get('JOBS', os.cpu_count() or 1))


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel to be built.

    :ivar arguments: arguments of build.sh
    :ivar environment: environment of guest.sh, in all runs of this kernel
    """

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


KERNELS = {
    'base': Kernel(('base',)),
    'base-off': Kernel(('base', 'off')),
    'hcbs': Kernel(('hcbs',)),
    # An interrupt while identify_cpu() has forgotten the five levels of the
    # page table is a wild access for KASAN.
    'debug': Kernel(('hcbs', 'debug'), (('GUEST_CPU', 'max,la57=off'),)),
    'suspend': Kernel(('hcbs', 'suspend')),
    'kcsan': Kernel(('hcbs', 'kcsan')),
    'rt': Kernel(('hcbs', 'rt')),
    'base-selftest': Kernel(('base', 'selftest')),
    'hcbs-selftest': Kernel(('hcbs', 'selftest')),
}


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a guest or of a command.

    :ivar group: name that selects it
    :ivar log: its log, without the extension; unique
    :ivar kernel: the kernel of the guest, or None for a command
    :ivar test: the guest's test with its argument, or the command
    :ivar cpus: number of CPUs of the guest
    :ivar when: 'brief', 'full', 'both', or 'named' for a group that --full
        takes only by its name
    :ivar slots: number of CPUs of this machine that it uses
    :ivar arguments: of the guest's kernel, in addition
    """

    group: str
    log: str
    kernel: str | None
    test: str
    cpus: str = '1'
    when: str = 'both'
    slots: int = 1
    environment: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A comparison of two logs."""

    group: str
    name: str
    logs: tuple[str, str]
    judge: Callable[[list[str], list[str]], tuple[list[str], bool]]


# EX_UNAVAILABLE of a script that builds what the guest runs.
UNAVAILABLE = 69
TOOLS = (('GUEST_TOOLS', 'tools'),)
SUITE = (('GUEST_TOOLS', 'suite'),)
# Variants of tests/stress.c.
STRESS = ('one', 'all', 'partitions', 'beside')
# Runs that are short and pass with PREEMPT_RT, too.
PREEMPT_RT = (
    'finish', 'pi', 'edge', 'refuse', 'delegate', 'multiply', 'pi-cpus',
    'percpu',
)  # fmt: skip


def stress(
    group: str,
    length: str,
    seed: int,
    when: str,
    kernel: str = 'debug',
    arguments: tuple[str, ...] = (),
) -> list[Run]:
    """The variants of tests/stress.c, each alone.

    :param length: operations, or seconds with an ``s``
    :param seed: of the first variant
    """
    return [
        Run(
            group,
            f'{group}-{variant}',
            kernel,
            f'stress:{length},{seed + number},{variant}',
            cpus='4',
            when=when,
            slots=2,
            environment=(('GUEST_CLOCK', 'host'), ('GUEST_TIMEOUT', '3600')),
            arguments=arguments,
        )
        for number, variant in enumerate(STRESS)
    ]


RUNS = [
    Run(
        'harness', 'tables', None, 'python3 -B -m unittest discover -s scripts'
    ),
    # The long ones first, so that two of them run side by side.
    Run('series', 'series', None, 'scripts/series.sh', when='full', slots=2),
    Run('faults', 'faults', None, 'scripts/faults.py', when='full'),
    # The package of a server kernel, in a guest with systemd and libvirt.
    Run('server', 'deb', None, 'scripts/deb.sh', when='full', slots=2),
    Run(
        'server',
        'containers',
        None,
        'scripts/debian.sh containers',
        when='full',
    ),
    Run('server', 'server-boot', None, 'scripts/debian.sh boot', when='full'),
    *(
        Run(
            'selftests',
            f'selftests-{part}{suffix}',
            kernel + flavour,
            f'script:selftests:{part}',
            cpus=cpus,
            when=when,
            environment=(
                *TOOLS,
                ('GUEST_MB', '2048'),
                ('GUEST_SHIFT', '2'),
                ('GUEST_TIMEOUT', '3600'),
            ),
        )
        for part, cpus, when, flavour in (
            ('brief', '4,sockets=1,cores=2,threads=2', 'both', ''),
            ('memory', '2', 'full', '-selftest'),
            ('cpuset', '8', 'full', ''),
        )
        for suffix, kernel in (('-base', 'base'), ('', 'hcbs'))
    ),
    Run('supply', 'control', 'base', 'control:brief', when='brief'),
    Run('supply', 'supply', 'hcbs', 'supply:brief', when='brief'),
    Run('supply', 'control', 'base', 'control', when='full'),
    Run('supply', 'supply', 'hcbs', 'supply', when='full'),
    Run('supply', 'supply1', 'hcbs', 'supply1:brief'),
    Run('supply', 'edge', 'hcbs', 'edge'),
    Run('random', 'random', 'hcbs', 'random:1,8', when='brief'),
    Run('random', 'random-sleep', 'hcbs', 'random:2,8,sleep', when='brief'),
    Run('random', 'random', 'hcbs', 'random:3,200', when='full'),
    Run('random', 'random-sleep', 'hcbs', 'random:4,200,sleep', when='full'),
    Run('refusals', 'refuse', 'hcbs', 'refuse'),
    Run('refusals', 'refuse1', 'hcbs', 'refuse1'),
    Run('refusals', 'delegate', 'hcbs', 'delegate'),
    Run('refusals', 'delegate1', 'hcbs', 'delegate1'),
    # RCU's soft interrupts are in the time of others, and those count periods.
    Run(
        'refusals',
        'multiply',
        'hcbs',
        'multiply',
        arguments=('rcutree.use_softirq=0',),
    ),
    Run('percpu', 'percpu', 'hcbs', 'percpu', cpus='4'),
    Run('percpu', 'percpu-memory', 'hcbs', 'percpu:memory', cpus='4'),
    Run('percpu', 'partition', 'hcbs', 'partition', cpus='4'),
    Run('percpu', 'reclaim', 'hcbs', 'reclaim', cpus='4'),
    Run(
        'percpu', 'core', 'hcbs', 'core', cpus='4,sockets=1,cores=2,threads=2'
    ),
    *(
        Run('attacks', f'attack-{name}', 'hcbs', f'attack:{name}', cpus=cpus)
        for name, cpus in (
            ('stuck', '4'),
            ('online', '4'),
            ('churn', '1'),
            ('tiny', '1'),
            ('many', '2'),
            ('held', '1'),
            ('resize', '2'),
            ('merge', '4'),
            ('crowd', '2'),
            ('nothing', '1'),
        )
    ),
    Run('attacks', 'change', 'hcbs', 'change'),
    *(
        Run('spare', f'spare-{name}', 'hcbs', f'spare:{name}')
        for name in ('figure', 'many', 'beside')
    ),
    Run('spare', 'pool-admission', 'hcbs', 'pool:admission'),
    Run('spare', 'pool-cpus', 'hcbs', 'pool:cpus', cpus='4'),
    *(
        Run(
            'spare',
            f'{test.replace(":", "-")}-debug',
            'debug',
            test,
            cpus='4',
            when='full',
        )
        for test in ('spare:changes', 'pool:admission', 'pool:cpus')
    ),
    # KASAN sees what it does.
    Run(
        'attacks',
        'attack-stale',
        'debug',
        'attack:stale',
        cpus='4,sockets=1,cores=2,threads=2',
        when='full',
    ),
    Run('migration', 'migrate', 'hcbs', 'migrate', cpus='4'),
    Run('inheritance', 'pi', 'hcbs', 'pi'),
    Run('inheritance', 'pi-cpus', 'hcbs', 'pi-cpus', cpus='4'),
    Run('inheritance', 'finish', 'hcbs', 'finish'),
    Run('regression', 'regress-base', 'base', 'regress'),
    Run('regression', 'regress', 'hcbs', 'regress'),
    Run('regression', 'boot', 'hcbs', 'boot'),
    Run(
        'regression',
        'later',
        'hcbs',
        'later',
        cpus='2',
        arguments=('maxcpus=1',),
    ),
    Run('regression', 'full', 'hcbs', 'full'),
    Run('regression', 'beside-base', 'base', 'beside-control'),
    Run('regression', 'beside', 'hcbs', 'beside'),
    Run('regression', 'beside-deadline', 'hcbs', 'beside:deadline', cpus='2'),
    Run('regression', 'going', 'hcbs', 'going'),
    *(
        Run(
            'regression',
            f'bench{suffix}',
            kernel,
            'script:bench',
            when='full',
            environment=TOOLS,
        )
        for kernel, suffix in (
            ('base', '-base'),
            ('base-off', '-off'),
            ('hcbs', ''),
        )
    ),
    # Beside a kernel as distributions build it, without groups of RT tasks;
    # on several CPUs as well.
    Run('regression', 'regress-off', 'base-off', 'regress', when='full'),
    *(
        Run(
            'regression',
            f'regress-cpus{suffix}',
            kernel,
            'regress',
            cpus='4',
            when='full',
        )
        for kernel, suffix in (('base-off', '-off'), ('hcbs', ''))
    ),
    Run('traces', 'trace', 'hcbs', 'trace', when='full'),
    Run('traces', 'trace-timers', 'hcbs', 'trace:timers'),
    Run('traces', 'trace-control', 'base', 'trace-control', when='full'),
    Run('traces', 'trace-cpus', 'hcbs', 'trace:cpus', cpus='4', when='full'),
    Run(
        'stress',
        'stress',
        'hcbs',
        'stress:2000,1',
        cpus='4',
        when='brief',
        environment=(('GUEST_CLOCK', 'host'),),
    ),
    *stress('stress', '20000', 1, 'full'),
    # An hour of it.
    *stress('endurance', '900s', 11, 'named'),
    # A watchpoint at one of 200 accesses, instead of 4000.
    *stress('races', '2000', 21, 'named', 'kcsan', ('kcsan.skip_watch=200',)),
    Run('kunit', 'kunit', 'debug', 'kunit', cpus='4', when='full'),
    Run('suspend', 'suspend', 'suspend', 'suspend', cpus='4', when='full'),
    # A deadline task counts on every CPU, so that fewer fit on more CPUs.
    *(
        Run(
            'hcbs-suite',
            f'suite-{cpus}{suffix}',
            kernel,
            f'script:suite:{part}',
            cpus=cpus,
            when='full',
            environment=(
                *SUITE,
                ('GUEST_SHIFT', '3'),
                ('GUEST_TIMEOUT', '3600'),
            ),
        )
        for part, cpus in (('all', '8'), ('deadline', '2'), ('deadline', '1'))
        for suffix, kernel in (('-base', 'base'), ('', 'hcbs'))
    ),
]
_BY_LOG = {run.log: run for run in RUNS}
RUNS += [
    dataclasses.replace(
        _BY_LOG[log],
        group='preempt-rt',
        log=f'rt-{log}',
        kernel='rt',
        when='named',
    )
    for log in PREEMPT_RT
]
COMPARISONS = [
    Comparison('supply', 'table', ('control', 'supply'), table.supply),
    Comparison(
        'random', 'schedules', ('random', 'random-sleep'), simulate.schedules
    ),
    Comparison(
        'regression', 'values', ('regress-base', 'regress'), table.values
    ),
    Comparison(
        'regression', 'beside', ('beside-base', 'beside'), table.values
    ),
    Comparison(
        'regression', 'perf bench', ('bench-base', 'bench'), table.values
    ),
    Comparison(
        'regression', 'values off', ('regress-off', 'regress'), table.values
    ),
    Comparison(
        'regression', 'perf bench off', ('bench-off', 'bench'), table.values
    ),
    Comparison(
        'regression',
        'values of CPUs',
        ('regress-cpus-off', 'regress-cpus'),
        table.shares,
    ),
    *(
        Comparison(
            'selftests',
            part,
            (f'selftests-{part}-base', f'selftests-{part}'),
            table.selftests,
        )
        for part in ('brief', 'memory', 'cpuset')
    ),
    *(
        Comparison(
            'hcbs-suite',
            f'{cpus} CPUs',
            (f'suite-{cpus}-base', f'suite-{cpus}'),
            suite.compare,
        )
        for cpus in (8, 2, 1)
    ),
]


@dataclasses.dataclass
class Line:
    """A line of the summary."""

    group: str
    name: str
    ok: bool
    seconds: float
    note: str = ''
    skipped: bool = False

    @property
    def verdict(self) -> str:
        """The word of the summary."""
        if self.skipped:
            return 'skipped'
        return 'passed' if self.ok else 'FAILED'


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def build(name: str) -> tuple[Line, str]:
    """Build a kernel; return the path of its image as well."""
    begin = time.monotonic()
    done = subprocess.run(
        [SCRIPTS / 'build.sh', *KERNELS[name].arguments],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    image = done.stdout.strip()
    seconds = time.monotonic() - begin
    line = Line('build', name, done.returncode == 0, seconds, image)
    return line, image


def programs(runs: list[Run]) -> tuple[list[Line], list[Run]]:
    """Build what the guests run; leave out runs whose source can't be had."""
    lines = []
    for tools in (TOOLS, SUITE):
        if not any(run.environment[:1] == tools for run in runs):
            continue
        name = tools[0][1]
        begin = time.monotonic()
        code = subprocess.run([SCRIPTS / f'{name}.sh'], check=False).returncode
        line = Line('build', name, code == 0, time.monotonic() - begin)
        if code == UNAVAILABLE:
            line.ok = line.skipped = True
            line.note = 'no source'
            runs = [run for run in runs if run.environment[:1] != tools]
        lines.append(line)
    return lines, runs


def log_of(run: Run) -> pathlib.Path:
    """The path of a run's log."""
    return LOGS / f'{run.log}.log'


def lines_of(name: str) -> list[str]:
    """The lines of a log by name; empty if it is missing."""
    path = LOGS / f'{name}.log'
    return table.read(str(path)) if path.exists() else []


def tells(line: str) -> bool:
    """Whether a line may show why a run failed."""
    return 'FAIL' in line or 'FATAL' in line or complaints.complains(line)


class Slots:
    """CPUs of this machine; a run waits until enough of them are free."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.free = number
        self.change = threading.Condition()

    def take(self, slots: int) -> int:
        """Wait for this number of slots, or for all; return how many."""
        slots = min(slots, self.number)
        with self.change:
            self.change.wait_for(lambda: self.free >= slots)
            self.free -= slots
        return slots

    def give(self, slots: int) -> None:
        """Give slots back."""
        with self.change:
            self.free += slots
            self.change.notify_all()


def execute(run: Run, images: dict[str, str], slots: Slots) -> Line:
    """Run one thing, and judge its log."""
    log = log_of(run)
    log.unlink(missing_ok=True)
    environment = dict(run.environment)
    if run.kernel:
        environment |= KERNELS[run.kernel].environment
    taken = slots.take(run.slots)
    begin = time.monotonic()
    try:
        if run.kernel is None:
            command = run.test.split()
            out = log.open('wb')
        else:
            command = [
                str(SCRIPTS / 'guest.sh'),
                images[run.kernel],
                run.test,
                run.cpus,
                str(log),
                *run.arguments,
            ]
            out = (LOGS / f'{run.log}.err').open('wb')
        with out:
            code = subprocess.run(
                command,
                cwd=KERNEL,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
            ).returncode
    finally:
        slots.give(taken)
    seconds = time.monotonic() - begin
    said = table.read(str(log)) if log.exists() else []
    if code:
        where = f'ended with {code}, see {log}'
        for text in [t for t in said if tells(t)][:20]:
            say(f'    | {text[:150]}')
    else:
        good = sum(text.startswith('ok ') for text in said)
        where = f'{good} checks' if run.kernel and good else ''
    return Line(run.group, run.log, code == 0, seconds, where)


def compare(comparison: Comparison) -> Line:
    """Compare two logs; keep the table, and show it if it is short."""
    out, ok = comparison.judge(*(lines_of(log) for log in comparison.logs))
    name = f'{comparison.group}-{comparison.name}'.replace(' ', '-')
    path = LOGS / f'{name}.txt'
    path.write_text('\n'.join(out) + '\n')
    say(f'\n{comparison.group}: {comparison.name} ({path})')
    shown = (
        out if len(out) <= 100 else [t for t in out if '<--' in t] + out[-3:]
    )
    for text in shown:
        say(f'  {text}')
    return Line(
        comparison.group,
        comparison.name,
        ok,
        0.0,
        'of ' + ' and '.join(comparison.logs),
    )


def summary(lines: list[Line], seconds: float) -> str:
    """The table at the end."""
    out = [f'{"group":<14} {"run":<16} {"verdict":<7} {"time":>7}  note']
    for line in lines:
        out.append(
            f'{line.group:<14} {line.name:<16} '
            f'{line.verdict:<7} {line.seconds:>6.0f}s  '
            f'{line.note}'.rstrip()
        )
    bad = sum(not line.ok for line in lines)
    skipped = sum(line.skipped for line in lines)
    out += [
        '',
        f'{len(lines)} runs and comparisons in {seconds:.0f} s on '
        f'{SLOTS} CPUs: {"all passed" if not bad else f"{bad} FAILED"}',
        f' - Passed: {len(lines) - bad - skipped}',
        f' - Failed: {bad}',
        f' - Skipped: {skipped}',
    ]
    return '\n'.join(out)


def selected(full: bool, groups: list[str]) -> list[Run]:
    """The runs of this call.

    First come those that take several CPUs. Later, one would keep a CPU idle
    until the run on the other had ended.
    """
    when = ('both', 'full', 'named') if full else ('both', 'brief')
    runs = [
        run
        for run in RUNS
        if run.when in when
        and (run.group in groups or (not groups and run.when != 'named'))
    ]
    return sorted(runs, key=lambda run: -run.slots)


def main() -> int:
    """Build, run, compare, sum up."""
    known = sorted({run.group for run in RUNS})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--full', action='store_true')
    parser.add_argument('groups', nargs='*', metavar='GROUP', help=str(known))
    options = parser.parse_args()
    unknown = set(options.groups) - set(known)
    if unknown:
        parser.error(f'no such group: {sorted(unknown)}; there are {known}')
    runs = selected(options.full, options.groups)

    begin = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = []
        images = {}
        for name in KERNELS:
            if any(run.kernel == name for run in runs):
                line, images[name] = build(name)
                lines.append(line)
                say(f'built {name} in {line.seconds:.0f} s: {line.note}')
                if not line.ok:
                    say('a kernel could not be built')
                    return 1
        built, runs = programs(runs)
        lines += built

        slots = Slots(SLOTS)
        with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
            waiting = [
                pool.submit(execute, run, images, slots) for run in runs
            ]
            for future in concurrent.futures.as_completed(waiting):
                line = future.result()
                word = 'passed' if line.ok else 'FAILED'
                say(f'{word} in {line.seconds:.0f} s: {line.name} {line.note}')
        lines += [future.result() for future in waiting]

        there = {run.log for run in runs}
        for comparison in COMPARISONS:
            if there.issuperset(comparison.logs):
                lines.append(compare(comparison))
        text = summary(lines, time.monotonic() - begin)
        (LOGS / 'summary.txt').write_text(text + '\n')
    say('\n' + text)
    return any(not line.ok for line in lines)


if __name__ == '__main__':
    sys.exit(main())
