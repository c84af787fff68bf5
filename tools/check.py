# SPDX-License-Identifier: Apache-2.0
"""Runs the project's checks one after the other and sums them up.

    python tools/check.py [PART ...]

Without a PART all of them run, in the order of PARTS. A part that fails does
not keep the others from running. The exit code is 0 if all passed.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAB = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
LOGS = LAB / 'check'
RUN = LAB / 'run'
CACHE = LAB / 'cache'
PYTHON = sys.executable
BIN = pathlib.Path(PYTHON).parent
HEARTBEAT_S = 30
TAIL_LINES = 40


@dataclasses.dataclass
class Counts:
    """How many tests ended in which way."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: 'Counts') -> 'Counts':
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )


@dataclasses.dataclass(frozen=True)
class Step:
    """One command; `tests` says that its output counts tests."""

    command: list[str]
    cwd: pathlib.Path = ROOT
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    tests: bool = False


@dataclasses.dataclass(frozen=True)
class Part:
    """A named piece of the checks."""

    title: str
    limit_s: int
    steps: Callable[[], Iterator[Step]]


@dataclasses.dataclass
class Outcome:
    """What became of a part."""

    name: str
    seconds: float
    ok: bool
    counts: Counts
    note: str = ''


class Failed(Exception):
    """A part cannot go on.

    :ivar reason: why
    :ivar counts: the tests of the step that failed; a step that is not a
        test counts as one
    """

    def __init__(self, reason: str, counts: Counts | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.counts = counts or Counts(failed=1)


def environment(extra: dict[str, str]) -> dict[str, str]:
    """The environment of every command: nothing is written to the checkout.

    Git serves root in a checkout of somebody else only when told so.
    """
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(('PYTHON', 'OS_', 'VIRTUAL_ENV', 'MAKE'))
    }
    env.update(
        PATH=f'{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:'
        '/sbin:/bin',
        LANG='C.UTF-8',
        NOVA_RT_LAB=str(LAB),
        PYTHONPYCACHEPREFIX=str(CACHE / 'pycache'),
        PYTHONUNBUFFERED='1',
        MYPY_CACHE_DIR=str(CACHE / 'mypy'),
        RUFF_CACHE_DIR=str(CACHE / 'ruff'),
        PRE_COMMIT_HOME=str(CACHE / 'pre-commit'),
        GIT_CONFIG_COUNT='1',
        GIT_CONFIG_KEY_0='safe.directory',
        GIT_CONFIG_VALUE_0=str(ROOT),
    )
    env.update(extra)
    return env


def style() -> Iterator[Step]:
    """Formatting, lint, our own rules, types, spelling: see pre-commit."""
    yield Step(['pre-commit', 'run', '--all-files', '--color', 'never'])


def wheel_of_nova_rt() -> pathlib.Path:
    """Where the environment has nova_rt; never the checkout."""
    where = subprocess.run(
        [PYTHON, '-P', '-c', 'import nova_rt; print(nova_rt.__path__[0])'],
        cwd='/',
        env=environment({}),
        check=False,
        capture_output=True,
        text=True,
    )
    path = pathlib.Path(where.stdout.strip() or '/')
    if 'site-packages' not in path.parts or ROOT in path.parents:
        raise Failed(
            f'nova_rt is not installed from its wheel ({path}): make venv'
        )
    return path


def stestr(
    name: str,
    tests: str,
    *,
    top: pathlib.Path | None = None,
    workers: int = 2,
    env: dict[str, str] | None = None,
    exclude: str | None = None,
) -> Iterator[Step]:
    """Run a directory of tests, by default one of the installed wheel."""
    top = top or wheel_of_nova_rt().parent
    where = RUN / 'check' / name
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    capture = {
        'OS_STDOUT_CAPTURE': '1',
        'OS_STDERR_CAPTURE': '1',
        'OS_LOG_CAPTURE': '1',
    }
    command = ['stestr', '--test-path', str(top / tests)]
    command += ['--top-dir', str(top), 'run', '--concurrency', str(workers)]
    if exclude:
        command += ['--exclude-regex', exclude]
    yield Step(command, cwd=where, env=capture | (env or {}), tests=True)


def unit() -> Iterator[Step]:
    """Tests of single modules."""
    yield from stestr(
        'unit', 'nova_rt/tests/unit', env={'OS_TEST_TIMEOUT': '120'}
    )


def functional_threading() -> Iterator[Step]:
    """Nova's services in one process, in the mode nova-compute runs in.

    Without the concurrency tests: Nova's own fixtures can deadlock in this
    mode, with and without nova_rt.
    """
    yield from stestr(
        'functional-threading',
        'nova_rt/tests/functional',
        env={
            'OS_TEST_TIMEOUT': '600',
            'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1',
        },
        exclude='concurren',
    )


def functional_eventlet() -> Iterator[Step]:
    """The same tests, and the concurrency tests, on green threads."""
    yield from stestr(
        'functional-eventlet',
        'nova_rt/tests/functional',
        env={
            'OS_TEST_TIMEOUT': '600',
            'OS_NOVA_DISABLE_EVENTLET_PATCHING': '0',
        },
    )


def docs() -> Iterator[Step]:
    """The manual and the release notes; a warning is an error."""
    html = RUN / 'doc'
    shutil.rmtree(html, ignore_errors=True)
    sphinx = [PYTHON, '-m', 'sphinx', '-W', '--keep-going', '-b', 'html']
    trees = ['-d', str(CACHE / 'doctrees')]
    yield Step([*sphinx, *trees, 'doc/source', str(html / 'manual')])
    yield Step(['reno', 'lint'])
    trees = ['-d', str(CACHE / 'doctrees-notes')]
    notes = ['releasenotes/source', str(html / 'releasenotes')]
    yield Step([*sphinx, *trees, *notes])


def host() -> Iterator[Step]:
    """The host layer on this machine's own kernel files."""
    yield from stestr(
        'host', 'nova_rt/tests/host', workers=1, env={'OS_TEST_TIMEOUT': '120'}
    )


def kernel() -> Iterator[Step]:
    """The HCBS kernel: builds, and some of every group of its tests.

    In QEMU under a virtual clock, so that no other load matters. What was
    built is kept under /var/lib/nova-rt-kernel.
    """
    make = ['make', '-C', 'kernel']
    yield Step([*make, 'packages'])
    yield Step([*make, 'check'], tests=True)


def beside_the_checkout() -> pathlib.Path:
    """A directory that has lab/ of the checkout, and not nova_rt/."""
    where = RUN / 'lab'
    link = where / 'lab'
    if not link.is_symlink() or link.readlink() != ROOT / 'lab':
        where.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / 'lab', target_is_directory=True)
    return where


def lab(*arguments: str) -> Step:
    """A command of the lab."""
    return Step([PYTHON, '-m', 'lab', *arguments], cwd=beside_the_checkout())


def lab_is_down() -> bool:
    """Whether there is no lab that somebody started for another purpose."""
    step = lab('status')
    answer = subprocess.run(
        step.command,
        cwd=step.cwd,
        env=environment({}),
        check=False,
        capture_output=True,
        text=True,
    )
    return answer.stdout.startswith('the lab is down')


def e2e() -> Iterator[Step]:
    """The whole cloud, its users and the kernel, in the lab's namespaces."""
    yield lab('up')
    top = beside_the_checkout()
    for step in stestr('e2e', 'lab/tests', top=top, workers=1):
        inside = lab('exec', *step.command)
        yield dataclasses.replace(inside, tests=True)


def tempest() -> Iterator[Step]:
    """Tempest's server tests, under nova-rt-compute and the stock one."""
    yield lab('up')
    yield lab('tempest')


def lab_down() -> Iterator[Step]:
    """Take the lab down; it fails if anything is left behind."""
    yield lab('down')


PARTS = {
    'style': Part('style, types, spelling', 600, style),
    'unit': Part('unit tests', 600, unit),
    'functional-threading': Part(
        'Nova in one process, threads', 1200, functional_threading
    ),
    'functional-eventlet': Part(
        'Nova in one process, eventlet', 1500, functional_eventlet
    ),
    'docs': Part('manual and release notes', 600, docs),
    'host': Part("this machine's kernel", 300, host),
    'kernel': Part('the HCBS kernel', 2400, kernel),
    'e2e': Part('the whole cloud', 1800, e2e),
    'tempest': Part('ordinary servers, by Tempest', 1800, tempest),
    'lab-down': Part('the lab leaves nothing behind', 300, lab_down),
}
# They need the lab and leave it up.
ON_THE_LAB = {'e2e', 'tempest'}


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
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:60] if said else ''


def run(step: Step, log: pathlib.Path, deadline: float) -> int:
    """Run a step up to the deadline; return its exit code."""
    with log.open('ab') as out:
        out.write(f'+ {" ".join(step.command)}\n'.encode())
        out.flush()
        process = subprocess.Popen(
            step.command,
            cwd=step.cwd,
            env=environment(step.env),
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

    def total(label: str) -> int:
        found = re.findall(rf'^ - {label}: (\d+)$', text, re.MULTILINE)
        return sum(int(number) for number in found)

    return Counts(
        passed=total('Passed') + total('Expected Fail'),
        failed=total('Failed') + total('Unexpected Success'),
        skipped=total('Skipped'),
    )


def run_step(step: Step, log: pathlib.Path, deadline: float) -> Counts:
    """Run one step and count its tests.

    :raises Failed: if it failed, took too long or ran no test
    """
    start = log.stat().st_size
    code = run(step, log, deadline)
    if not step.tests:
        if code:
            raise Failed(f'{" ".join(step.command)} ended with {code}')
        return Counts()
    with log.open('rb') as output:
        output.seek(start)
        counts = count(output.read().decode(errors='replace'))
    if counts.failed:
        raise Failed(f'{counts.failed} failed', counts)
    if code or not counts.passed:
        counts.failed += 1
        why = f'stestr ended with {code}' if code else 'no test ran'
        raise Failed(why, counts)
    return counts


def run_part(name: str) -> Outcome:
    """Run the steps of a part, up to the first that fails."""
    part = PARTS[name]
    log = LOGS / f'{name}.log'
    log.write_text('')
    begin = time.monotonic()
    total = Counts()
    note = ''
    tested = False
    try:
        for step in part.steps():
            tested = tested or step.tests
            counts = run_step(step, log, begin + part.limit_s)
            total = total + counts
    except Failed as error:
        note = error.reason
        total = total + error.counts
    if not tested and not note:
        total.passed += 1
    seconds = time.monotonic() - begin
    return Outcome(name, seconds, not note, total, note)


def show(outcome: Outcome) -> None:
    """Say what became of a part, and the end of its log if it failed."""
    counts = outcome.counts
    word = 'passed' if outcome.ok else 'FAILED'
    text = f'{counts.passed} passed, {counts.failed} failed, '
    text += f'{counts.skipped} skipped'
    print(f'           {word} in {outcome.seconds:.0f} s: {text}', flush=True)
    if outcome.ok:
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
    """One table and one line."""
    print(f'\n{"part":<22}{"result":<9}{"time":>8}  tests')
    for outcome in outcomes:
        counts = outcome.counts
        word = 'passed' if outcome.ok else 'FAILED'
        print(
            f'{outcome.name:<22}{word:<9}{outcome.seconds:>6.0f} s'
            f'  {counts.passed} passed, {counts.failed} failed,'
            f' {counts.skipped} skipped'
        )
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f'{"all":<31}{seconds:>6.0f} s  logs: {LOGS}\n')
    print(
        f'{sum(o.counts.passed for o in outcomes)} passed,'
        f' {sum(o.counts.failed for o in outcomes)} failed,'
        f' {sum(o.counts.skipped for o in outcomes)} skipped'
    )


def with_the_lab(names: list[str]) -> list[str]:
    """The parts to run, with what has to become of the lab.

    All of them want a lab as a fresh machine has it, with nobody's servers.
    Some of them run on the lab that is there, and leave it there.
    """
    down = lab_is_down()
    if not names:
        return [*([] if down else ['lab-down']), *PARTS]
    if down and ON_THE_LAB & set(names):
        return [*names, 'lab-down']
    return names


def main(names: list[str]) -> int:
    """Run the parts of these names, or all."""
    # As an interrupt from the keyboard: the part that runs is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f'no such part: {unknown[0]}; there are {", ".join(PARTS)}')
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    outcomes = []
    names = with_the_lab(names)
    for name in names:
        elapsed = time.monotonic() - begin
        print(f'[{elapsed:5.0f} s] {name}: {PARTS[name].title}', flush=True)
        outcomes.append(run_part(name))
        show(outcomes[-1])
    summary(outcomes)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit('check: interrupted')
