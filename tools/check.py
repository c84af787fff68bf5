# SPDX-License-Identifier: Apache-2.0
"""Runs the project's checks one after the other and sums them up.

    python tools/check.py [PART ...]

Without a PART all of them run, in the order of PARTS; those of LONG run only
when they are named. A part that fails does not keep the others from running.
The exit code is 0 if all passed.

What a part runs is said elsewhere: the tests and the manual in tox.ini, the
kernel in kernel/Makefile, the cloud in lab/.
"""

import collections
import configparser
import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAB = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
LOGS = LAB / 'check'
RUN = LAB / 'run'
CACHE = LAB / 'cache'
HEARTBEAT_S = 30
TAIL_LINES = 40
# Nothing is written to the checkout. Git serves root in a checkout of somebody
# else only when told so.
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(('PYTHON', 'OS_', 'VIRTUAL_ENV', 'MAKE'))
} | {
    'PATH': f'{pathlib.Path(sys.executable).parent}:/usr/local/sbin:'
    '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'LANG': 'C.UTF-8',
    'NOVA_RT_LAB': str(LAB),
    'PYTHONPYCACHEPREFIX': str(CACHE / 'pycache'),
    'PYTHONUNBUFFERED': '1',
    'MYPY_CACHE_DIR': str(CACHE / 'mypy'),
    'RUFF_CACHE_DIR': str(CACHE / 'ruff'),
    'PRE_COMMIT_HOME': str(CACHE / 'pre-commit'),
    'DOC_BUILD': str(RUN / 'doc'),
    'NOTES_BUILD': str(RUN / 'releasenotes'),
    'GIT_CONFIG_COUNT': '1',
    'GIT_CONFIG_KEY_0': 'safe.directory',
    'GIT_CONFIG_VALUE_0': str(ROOT),
}
# How many tests ended in which way: passed, failed, skipped.
Counts = collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Step:
    """One command.

    :ivar environment: added to ENVIRONMENT
    :ivar tests: its output counts tests, as stestr's does
    :ivar checkout: it runs in the checkout, not beside it
    :ivar without: what is missing if it ends with EX_UNAVAILABLE; the part is
        skipped then
    """

    command: list[str]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    tests: bool = False
    checkout: bool = False
    without: str = ''


@dataclasses.dataclass(frozen=True)
class Part:
    """A named piece of the checks."""

    title: str
    limit_s: int
    steps: list[Step]


@dataclasses.dataclass
class Outcome:
    """What became of a part."""

    name: str
    word: str
    seconds: float
    counts: Counts
    note: str = ''


class Failed(Exception):
    """A part cannot go on; the text says why.

    :ivar counts: the tests of the step that failed; a step that is not a
        test counts as one
    """

    def __init__(self, why: str, counts: Counts | None = None) -> None:
        super().__init__(why)
        self.counts = counts or Counts(failed=1)


class Skipped(Exception):
    """A part cannot run here; the text says what is missing."""


TOX = configparser.ConfigParser(interpolation=None)
TOX.read(ROOT / 'tox.ini')


def tox(section: str, arguments: str = '') -> list[Step]:
    """The commands of a section of tox.ini, with its variables.

    tox itself would build a Python environment of its own for each, and test
    the checkout.

    :param arguments: what takes the place of {posargs}
    """
    wanted = TOX[next(s for s in TOX if s.partition('{')[0] == section)]

    def value(key: str) -> list[str]:
        text = wanted.get(key) or TOX['testenv'][key]
        text = re.sub(
            r'\{\[(\w+)\](\w+)\}', lambda found: TOX[found[1]][found[2]], text
        )
        text = re.sub(
            r'\{env:(\w+):([^}]*)\}',
            lambda found: ENVIRONMENT.get(found[1], found[2]),
            text,
        )
        text = text.replace('{posargs}', arguments)
        return [line for line in text.splitlines() if line]

    variables = dict(line.split('=', 1) for line in value('setenv'))
    return [
        Step(command, variables, tests=test, checkout=not test)
        for command in map(shlex.split, value('commands'))
        for test in [command[0] == 'stestr']
    ]


def other(command: str, tests: bool = False, without: str = '') -> Step:
    """A command of the checkout."""
    return Step(command.split(), {}, tests, True, without)


def lab(words: str, tests: bool = False) -> Step:
    """A command of the lab."""
    return Step([sys.executable, '-m', 'lab', *words.split()], {}, tests)


WORKERS = '--concurrency=2'
PARTS = {
    'style': Part('style, types, spelling', 600, tox('testenv:pep8')),
    'unit': Part('unit tests', 600, tox('testenv', WORKERS)),
    'tools': Part(
        'files for operators, tools', 300, tox('testenv:tools', '--serial')
    ),
    'functional-threading': Part(
        'Nova in one process, threads',
        2400,
        tox('testenv:functional-threading', WORKERS),
    ),
    'functional-eventlet': Part(
        'Nova in one process, eventlet',
        1500,
        tox('testenv:functional', WORKERS),
    ),
    'nova-unit': Part(
        "Nova's own unit tests", 1200, tox('testenv:nova-unit', WORKERS)
    ),
    'docs': Part(
        'manual and release notes',
        600,
        [*tox('testenv:docs'), *tox('testenv:releasenotes')],
    ),
    'host': Part("this machine's kernel", 300, tox('testenv:host')),
    # In QEMU under a virtual clock, so that no other load matters. What was
    # built is kept under /var/lib/nova-rt-kernel.
    'kernel': Part(
        'the HCBS kernel',
        2400,
        [
            other('kernel/scripts/fetch.sh', without='no source'),
            other('make -C kernel packages'),
            other('make -C kernel check', tests=True),
        ],
    ),
    'model': Part(
        "the papers' model on the HCBS kernel",
        1800,
        [
            other('kernel/scripts/fetch.sh', without='no source'),
            other('make -C kernel packages'),
            other(
                'python -m experiments run check --output '
                f'{LOGS / "experiments"}'
            ),
        ],
    ),
    'e2e': Part(
        'the whole cloud',
        1800,
        [
            lab('up'),
            lab('exec stestr --test-path=./lab/tests run --serial', True),
        ],
    ),
    'tempest-plugin': Part(
        'real-time servers, by Tempest',
        1500,
        [lab('up'), lab('tempest-plugin --workers=2', True)],
    ),
    'tempest': Part(
        'ordinary servers, by Tempest', 1800, [lab('up'), lab('tempest')]
    ),
    'lab-down': Part('the lab leaves nothing behind', 300, [lab('down')]),
}
# They run only when they are named.
LONG = {
    'property': Part(
        'random operations, the long form',
        4 * 3600,
        tox('testenv:property', WORKERS),
    ),
}
# They need the lab and leave it up.
ON_THE_LAB = {'e2e', 'tempest-plugin', 'tempest'}


def beside_the_checkout(name: str) -> pathlib.Path:
    """Make the directory in which a part runs: the checkout with the wheel.

    :raises Failed: if nova_rt's wheel is not installed
    """
    wheel = pathlib.Path(sysconfig.get_path('purelib')) / 'nova_rt'
    if not wheel.is_dir():
        raise Failed(f'nova_rt is not installed from its wheel ({wheel})')
    where = RUN / 'check' / name
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    (where / wheel.name).symlink_to(wheel)
    for each in ROOT.iterdir():
        if each.name not in (wheel.name, '.git'):
            (where / each.name).symlink_to(each)
    return where


def lab_is_down() -> bool:
    """Whether there is no lab that somebody started for another purpose."""
    answer = subprocess.run(
        lab('status').command,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
        stdout=subprocess.PIPE,
    )
    return answer.stdout.startswith(b'the lab is down')


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
        return


def last_line(log: pathlib.Path) -> str:
    """The last line of a log that says something, cut to a short text."""
    lines = log.read_text(errors='replace').splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    return texts[-1][:60] if texts else ''


def run(
    step: Step, where: pathlib.Path, log: pathlib.Path, deadline: float
) -> int:
    """Run a step up to the deadline; return its exit code."""
    with log.open('ab') as out:
        out.write(f'+ {" ".join(step.command)}\n'.encode())
        out.flush()
        process = subprocess.Popen(
            step.command,
            cwd=ROOT if step.checkout else where,
            env=ENVIRONMENT | step.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed('it took too long and was stopped')
                try:
                    return process.wait(min(HEARTBEAT_S, left))
                except subprocess.TimeoutExpired:
                    print(f'           ... {last_line(log)}', flush=True)
        finally:
            if process.poll() is None:
                stop(process)


def count(text: str) -> Counts:
    """Sum what stestr says about its tests."""
    words = {
        'Passed': 'passed',
        'Expected Fail': 'passed',
        'Failed': 'failed',
        'Unexpected Success': 'failed',
        'Skipped': 'skipped',
    }
    counts = Counts()
    for word, number in re.findall(r'^ - (.+): (\d+)$', text, re.M):
        if word in words:
            counts[words[word]] += int(number)
    return counts


def said(counts: Counts) -> str:
    """Counts in words."""
    return ', '.join(
        f'{counts[word]} {word}' for word in ('passed', 'failed', 'skipped')
    )


def run_step(
    step: Step, where: pathlib.Path, log: pathlib.Path, deadline: float
) -> Counts:
    """Run one step and count its tests.

    :raises Failed: if it failed, took too long or ran no test
    :raises Skipped: if it misses what the part cannot do without
    """
    start = log.stat().st_size
    code = run(step, where, log, deadline)
    if step.without and code == os.EX_UNAVAILABLE:
        raise Skipped(step.without)
    if not step.tests:
        if code:
            raise Failed(f'{" ".join(step.command)} ended with {code}')
        return Counts()
    with log.open('rb') as output:
        output.seek(start)
        counts = count(output.read().decode(errors='replace'))
    if counts['failed']:
        raise Failed(f'{counts["failed"]} failed', counts)
    if code or not counts['passed']:
        why = f'stestr ended with {code}' if code else 'no test ran'
        raise Failed(why, counts + Counts(failed=1))
    return counts


def run_part(name: str) -> Outcome:
    """Run the steps of a part, up to the first that fails."""
    part = (PARTS | LONG)[name]
    log = LOGS / f'{name}.log'
    log.write_text('')
    begin = time.monotonic()
    total = Counts()
    word, note = 'passed', ''
    try:
        where = beside_the_checkout(name)
        for step in part.steps:
            total += run_step(step, where, log, begin + part.limit_s)
        # A part without tests counts as one.
        total = total or Counts(passed=1)
    except Failed as error:
        word, note = 'FAILED', str(error)
        total += error.counts
    except Skipped as error:
        word, note = 'skipped', str(error)
        total += Counts(skipped=1)
    return Outcome(name, word, time.monotonic() - begin, total, note)


def show(outcome: Outcome) -> None:
    """Say what became of a part, and the end of its log if it failed."""
    print(
        f'           {outcome.word} in {outcome.seconds:.0f} s:'
        f' {said(outcome.counts)}',
        flush=True,
    )
    if not outcome.note:
        return
    log = LOGS / f'{outcome.name}.log'
    print(f'           {outcome.note}; the whole log: {log}')
    text = log.read_text(errors='replace')
    lines = re.findall(
        r'^(?:\{\d+\} )?(\S+ \[.*\] \.\.\. FAILED)$', text, re.M
    )
    for line in lines or text.splitlines()[-TAIL_LINES:]:
        print(f'           | {line}')


def summary(outcomes: list[Outcome]) -> None:
    """One table, and one line: the numbers, and what could not run."""
    print(f'\n{"part":<22}{"result":<9}{"time":>8}  tests')
    for outcome in outcomes:
        skipped = outcome.word == 'skipped'
        print(
            f'{outcome.name:<22}{outcome.word:<9}{outcome.seconds:>6.0f} s'
            f'  {outcome.note if skipped else said(outcome.counts)}'
        )
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f'{"all":<31}{seconds:>6.0f} s  logs: {LOGS}\n')
    words = [said(sum((outcome.counts for outcome in outcomes), Counts()))]
    words += [
        f'{outcome.name}: skipped, {outcome.note}'
        for outcome in outcomes
        if outcome.word == 'skipped'
    ]
    print('; '.join(words))


def with_the_lab(names: list[str]) -> list[str]:
    """The parts to run, with what has to become of the lab.

    All of them want a lab as a fresh machine has it, with nobody's servers,
    and so do some of them on a machine without a lab: one that died has left
    its database. On a lab that is there some of them run, and leave it there.
    """
    if not names:
        return ['lab-down', *PARTS]
    if ON_THE_LAB & set(names) and lab_is_down():
        return ['lab-down', *names, 'lab-down']
    return names


def main(names: list[str]) -> int:
    """Run the parts of these names, or all."""
    # As an interrupt from the keyboard: the part that runs is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = PARTS | LONG
    unknown = [name for name in names if name not in parts]
    if unknown:
        print(f'no such part: {unknown[0]}; there are {", ".join(parts)}')
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    outcomes = []
    names = with_the_lab(names)
    for name in names:
        elapsed = time.monotonic() - begin
        print(f'[{elapsed:5.0f} s] {name}: {parts[name].title}', flush=True)
        outcomes.append(run_part(name))
        show(outcomes[-1])
    summary(outcomes)
    return int(any(outcome.word == 'FAILED' for outcome in outcomes))


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit('check: interrupted')
