# SPDX-License-Identifier: Apache-2.0
"""Run the project's checks one after the other, and sum them up.

    python -m tools.check [--full] [PART ...]

Without --full it is the gate: the parts that have to pass before a change
lands. A part that has passed on this machine with the same content is not run
again, unless it is named. With --full it is everything; a second call goes on
where the first one stopped, for the same tree. A part that fails does not keep
the others from running. The exit code is 0 if all passed. --note-tested writes
kernel/tested.toml, for other machines.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

from tools.gate import parts, places, records
from tools.gate.parts import FULL, GATE, Part, Step

HEARTBEAT_S = 30
TAIL_LINES = 40
#: A part hangs if it takes longer than that; one of the long form takes more.
LIMIT_S, FULL_LIMIT_S = 3600, 3 * 3600
# How many tests ended in which way: passed, failed, skipped.
Counts = collections.Counter[str]


@dataclasses.dataclass
class Outcome:
    """The outcome of a part.

    :ivar word: passed, recorded, skipped, FAILED
    :ivar note: why it failed, the missing source, or the earlier run
    :ivar key: a hash of the content that it ran with
    """

    name: str
    word: str
    seconds: float
    counts: Counts
    note: str = ''
    key: str = ''


class Failed(Exception):
    """A part cannot go on; the text says why.

    :ivar counts: the tests of the step that failed; a step that is not a
        test counts as one
    """

    def __init__(self, why: str, counts: Counts | None = None) -> None:
        super().__init__(why)
        self.counts = counts or Counts(failed=1)


class Skipped(Exception):
    """A part cannot run here; the text names the missing source."""


def beside_the_checkout(name: str) -> pathlib.Path:
    """Make the directory in which a part runs: the checkout with the wheel.

    :raises Failed: if nova_rt's wheel is not installed
    """
    wheel = pathlib.Path(sysconfig.get_path('purelib')) / 'nova_rt'
    if not wheel.is_dir():
        raise Failed(f'nova_rt is not installed from its wheel ({wheel})')
    where = places.RUN / 'check' / name
    where.mkdir(parents=True, exist_ok=True)
    for each in where.iterdir():
        # It knows how long each test took: workers are balanced by that. But
        # Nova's tests stop the clock: one worker would get nearly all of them.
        if each.name != '.stestr' or name == 'nova-unit':
            each.unlink() if each.is_symlink() else shutil.rmtree(each)
    (where / wheel.name).symlink_to(wheel)
    for each in places.ROOT.iterdir():
        if each.name not in (wheel.name, '.git', '.stestr'):
            (where / each.name).symlink_to(each)
    return where


def lab_is(*words: str) -> bool:
    """Whether the lab's status begins with one of these words."""
    answer = subprocess.run(
        parts.lab('status').command,
        cwd=places.ROOT,
        env=places.ENVIRONMENT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    return answer.stdout.startswith(words) if words else not answer.returncode


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children."""
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
    lines = log.read_text(errors='replace').rstrip().splitlines()
    return lines[-1].strip()[:60] if lines else ''


def run(
    step: Step, where: pathlib.Path, log: pathlib.Path, deadline: float
) -> int:
    """Run a step up to the deadline; return its exit code."""
    with log.open('ab') as out:
        out.write(f'+ {" ".join(step.command)}\n'.encode())
        out.flush()
        process = subprocess.Popen(
            step.command,
            cwd=places.ROOT if step.checkout else where,
            env=places.ENVIRONMENT | step.environment,
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
    """Sum the totals that stestr prints."""
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
    """Run one step of a part; return its tests, none if it has none.

    :raises Failed: if it failed, took too long or ran no test
    :raises Skipped: if its source is missing
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


def run_steps(name: str, part: Part, limit_s: float) -> Counts:
    """Run the steps of a part, up to the first that fails.

    :return: how many tests there were; a part without tests counts as one
    :raises Failed: if a step failed or there were too few tests
    :raises Skipped: if the source of a step is missing
    """
    log = places.LOGS / f'{name}.log'
    log.write_text('')
    deadline = time.monotonic() + limit_s
    where = beside_the_checkout(name)
    total = Counts()
    for step in part.steps:
        total += run_step(step, where, log, deadline)
    found = total['passed'] + total['skipped']
    if found < part.at_least:
        why = f'{found} tests, of {part.at_least} at least'
        raise Failed(why, total + Counts(failed=1))
    return total or Counts(passed=1)


def recorded(name: str, part: Part) -> Outcome | None:
    """Return the outcome of an earlier run of the same content.

    :returns: None if there is nothing that will do
    """
    if part.in_ci and os.environ.get('CI') == 'true':
        return None
    found = records.shown(name, part)
    if found is None:
        return None
    counts, note = found
    return Outcome(name, 'recorded', 0, Counts(counts), note)


def _keep_service_logs(name: str) -> str:
    """Keep the logs of the lab beside that of a part, until it fails again.

    :returns: a note that says where they are, or why not
    """
    kept = places.LOGS / f'{name}.services'
    shutil.rmtree(kept, ignore_errors=True)
    try:
        shutil.copytree(places.SERVICE_LOGS, kept)
    except (OSError, shutil.Error) as error:
        return f'; the logs of the services cannot be kept: {error}'
    return f'; the logs of the services: {kept}'


def run_part(name: str, part: Part, limit_s: float) -> Outcome:
    """Run a part; nothing that happens in it is raised."""
    begin = time.monotonic()
    key = records.key(part)
    word, note = 'passed', ''
    try:
        counts = run_steps(name, part, limit_s)
    except Failed as error:
        word, note, counts = 'FAILED', str(error), error.counts
        if name in parts.USES_THE_LAB:
            note += _keep_service_logs(name)
    except Skipped as error:
        word, note, counts = 'skipped', str(error), Counts(skipped=1)
    seconds = time.monotonic() - begin
    return Outcome(name, word, seconds, counts, note, key)


def show(outcome: Outcome) -> None:
    """Print the outcome of a part, and the end of its log if it failed."""
    print(
        f'           {outcome.word} in {outcome.seconds:.0f} s:'
        f' {said(outcome.counts)}',
        flush=True,
    )
    if not outcome.note:
        return
    log = places.LOGS / f'{outcome.name}.log'
    if outcome.word != 'FAILED':
        print(f'           {outcome.note}')
        return
    print(f'           {outcome.note}; the whole log: {log}')
    text = log.read_text(errors='replace')
    lines = re.findall(
        r'^(?:\{\d+\} )?(\S+ \[.*\] \.\.\. FAILED)$', text, re.M
    )
    for line in lines or text.splitlines()[-TAIL_LINES:]:
        print(f'           | {line}')


def summary(outcomes: list[Outcome]) -> None:
    """Print the table, the parts that did not run, and a line of totals."""
    print(f'\n{"part":<22}{"result":<9}{"time":>8}  tests')
    for outcome in outcomes:
        noted = outcome.word in ('skipped', 'recorded')
        print(
            f'{outcome.name:<22}{outcome.word:<9}{outcome.seconds:>6.0f} s'
            f'  {outcome.note if noted else said(outcome.counts)}'
        )
    seconds = sum(outcome.seconds for outcome in outcomes)
    print(f'{"all":<31}{seconds:>6.0f} s  logs: {places.LOGS}\n')
    for outcome in outcomes:
        if outcome.word == 'recorded':
            print(
                f'{outcome.name}: from records, {outcome.note}: '
                f'{said(outcome.counts)}'
            )
        elif outcome.word == 'skipped':
            print(f'{outcome.name}: skipped, {outcome.note}')
    ran = [each.counts for each in outcomes if each.word != 'recorded']
    print(said(sum(ran, Counts())))


def with_the_lab(names: list[str], everything: bool) -> list[str]:
    """List the parts to run, with the ends of the lab.

    All of them want a lab as a fresh machine has it, with nobody's servers,
    and so do some of them on a machine without a lab: one that died has left
    its database. On a lab that is there some of them run, and leave it there.
    """
    if everything:
        return ['lab-down', *names]
    if parts.ON_THE_LAB & set(names) and lab_is('the lab is down'):
        return ['lab-down', *names, 'lab-down']
    return names


def check(names: list[str], full: bool) -> int:
    """Run the parts of these names, or all; return the exit code."""
    table = FULL if full else GATE
    unknown = [name for name in names if name not in table]
    if unknown:
        print(f'no such part: {unknown[0]}; there are {", ".join(table)}')
        return 2
    places.LOGS.mkdir(parents=True, exist_ok=True)
    tree = records.tree()
    wanted = names or list(table)
    if full and not names:
        done = records.passed_of(tree)
        wanted = [
            name for name in wanted
            if name not in done or name.startswith('lab-down')
        ]  # fmt: skip
        print(f'shown already of this tree: {", ".join(sorted(done)) or "-"}')
    outcomes: list[Outcome] = []
    begin = time.monotonic()
    for name in with_the_lab(wanted, not names):
        elapsed = time.monotonic() - begin
        print(f'[{elapsed:5.0f} s] {name}: {table[name].title}', flush=True)
        outcome = None if full or names else recorded(name, table[name])
        outcome = outcome or run_part(
            name, table[name], FULL_LIMIT_S if full else LIMIT_S
        )
        show(outcome)
        outcomes.append(outcome)
        # Else it ran with files that are here no longer.
        if outcome.word == 'passed' and records.tree() == tree:
            records.append(
                part=name,
                form='full' if full else 'gate',
                tree=tree,
                key=outcome.key,
                seconds=round(outcome.seconds),
                counts=outcome.counts,
            )
    summary(outcomes)
    return int(any(each.word == 'FAILED' for each in outcomes))


def main(words: list[str]) -> int:
    """Follow the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--full', action='store_true')
    parser.add_argument('--note-tested', action='store_true')
    parser.add_argument('names', nargs='*', metavar='PART')
    options = parser.parse_args(words)
    # As an interrupt from the keyboard: the part that runs is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.note_tested:
            print(records.note_tested())
            return 0
        with records.alone():
            return check(options.names, options.full)
    except LookupError as error:
        print(f'check: {error}')
        return 1


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit('check: interrupted')
