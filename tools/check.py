# SPDX-License-Identifier: Apache-2.0
"""Run the project's checks one after the other, and sum them up.

    python -m tools.check [--full] [PART ...]

Without --full it is the gate: what has to pass before a change lands. A part
whose content has passed on this machine before is not run again, unless it is
named. With --full it is everything; a second call goes on where the first one
stopped, for the same tree. A part that fails does not keep the others from
running. The exit code is 0 if all passed.

Other calls: --shown (what the long form has shown, and what has changed
since), --unstable (tests that passed in their second run only), --note-tested
and --note-full (write kernel/tested.toml and tools/gate/shown.toml, for other
machines).
"""

import argparse
import collections
from collections.abc import Iterator
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
from typing import Any

from tools.gate import parts, places, records
from tools.gate.parts import FULL, GATE, Part, Step

HEARTBEAT_S = 30
TAIL_LINES = 40
#: A part hangs if it takes longer than that; one of the long form takes more.
LIMIT_S, FULL_LIMIT_S = 3600, 3 * 3600
#: With more failures than that in a part, none is run again.
MOST_AGAIN = 2
_FAILED = re.compile(r'^(?:\{\d+\} )?(\S+) \[[\d.]+s\] \.\.\. FAILED$', re.M)
# How many tests ended in which way: passed, failed, skipped.
Counts = collections.Counter[str]


@dataclasses.dataclass
class Outcome:
    """The outcome of a part.

    :ivar word: passed, unstable, recorded, skipped, FAILED
    :ivar note: why it failed, or what is missing, or what recorded it
    :ivar unstable: names of tests that passed in a second run
    """

    name: str
    word: str
    seconds: float
    counts: Counts
    note: str = ''
    unstable: list[str] = dataclasses.field(default_factory=list)
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
    """A part cannot run here; the text says what is missing."""


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


class Runner:
    """Runs the steps of one part.

    :ivar unstable: names of tests that passed in a second run
    """

    def __init__(self, name: str, part: Part, limit_s: float) -> None:
        self.name = name
        self.part = part
        self.unstable: list[str] = []
        self._log = places.LOGS / f'{name}.log'
        self._log.write_text('')
        self._deadline = time.monotonic() + limit_s
        self._meter = records.Meter()

    def run(self) -> Counts:
        """Run the steps, up to the first that fails.

        :return: how many tests there were; a part without tests counts as one
        :raises Failed: if it failed, took too long or ran no test
        :raises Skipped: if it misses what the part cannot do without
        """
        where = beside_the_checkout(self.name)
        total = Counts()
        for step in self.part.steps:
            total += self._step(step, where)
        found = total['passed'] + total['skipped']
        if found < self.part.at_least:
            raise Failed(
                f'{found} tests, of {self.part.at_least} at least',
                total + Counts(failed=1),
            )
        return total or Counts(passed=1)

    def _step(self, step: Step, where: pathlib.Path) -> Counts:
        start = self._log.stat().st_size
        code = run(step, where, self._log, self._deadline)
        if step.without and code == os.EX_UNAVAILABLE:
            raise Skipped(step.without)
        if not step.tests:
            if code:
                raise Failed(f'{" ".join(step.command)} ended with {code}')
            return Counts()
        with self._log.open('rb') as output:
            output.seek(start)
            text = output.read().decode(errors='replace')
        counts = count(text)
        if counts['failed']:
            names = _FAILED.findall(text)
            if len(names) == counts['failed'] and self._may_again(step, names):
                return counts + self._again(step, where, names, text)
            raise Failed(f'{counts["failed"]} failed', counts)
        if code or not counts['passed']:
            why = f'stestr ended with {code}' if code else 'no test ran'
            raise Failed(why, counts + Counts(failed=1))
        return counts

    def _may_again(self, step: Step, names: list[str]) -> bool:
        if not step.again or len(names) > MOST_AGAIN:
            return False
        # On a lab that has lost a service, a second run shows nothing.
        return self.name not in parts.ON_THE_LAB or lab_is()

    def _again(
        self, step: Step, where: pathlib.Path, names: list[str], text: str
    ) -> Counts:
        """Run the tests that failed once more.

        :return: what makes the counts of the first run those of both
        """
        print(f'           again: {", ".join(names)}', flush=True)
        regex = '|'.join(re.escape(re.sub(r'\[.*', '', n)) for n in names)
        try:
            counts = self._step(step.of(f'^({regex})($|\\[)'), where)
        except Failed as error:
            failed = Counts(failed=len(names))
            raise Failed(f'{error}, twice', failed) from None
        if counts['passed'] != len(names):
            raise Failed(f'{said(counts)} in the second run')
        self.unstable += names
        for name in names:
            records.append(
                'unstable.jsonl',
                {
                    'at': records.now(),
                    'commit': records.commit(),
                    'part': self.name,
                    'test': name,
                    'output': _output_of(name, text),
                    **self._meter.read(),
                },
            )
        return Counts(passed=len(names), failed=-len(names))


def _output_of(name: str, text: str) -> list[str]:
    """The lines that follow a test that failed."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if f'{name} [' in line)
    return lines[start : start + 60]


def recorded(name: str, part: Part) -> Outcome | None:
    """Return what an earlier run has shown of the same content.

    :returns: None if there is nothing that will do
    """
    if part.in_ci and os.environ.get('CI') == 'true':
        return None
    found = records.shown(name, part)
    if found is None:
        return None
    note = f'{found.date}, {found.where}'
    return Outcome(name, 'recorded', 0, Counts(found.counts), note)


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
    runner = Runner(name, part, limit_s)
    word, note = 'passed', ''
    try:
        counts = runner.run()
        if runner.unstable:
            word, note = 'unstable', ', '.join(runner.unstable)
    except Failed as error:
        word, note, counts = 'FAILED', str(error), error.counts
        if name in parts.USES_THE_LAB:
            note += _keep_service_logs(name)
    except Skipped as error:
        word, note, counts = 'skipped', str(error), Counts(skipped=1)
    seconds = time.monotonic() - begin
    return Outcome(
        name, word, seconds, counts, note, runner.unstable, records.key(part)
    )


def show(outcome: Outcome) -> None:
    """Print what became of a part, and the end of its log if it failed."""
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


def summary(outcomes: list[Outcome], table: dict[str, Part]) -> None:
    """One table; what was not run; one line with the numbers of what was."""
    print(f'\n{"part":<22}{"result":<9}{"time":>8}{"budget":>9}  tests')
    for outcome in outcomes:
        noted = outcome.word in ('skipped', 'recorded')
        print(
            f'{outcome.name:<22}{outcome.word:<9}{outcome.seconds:>6.0f} s'
            f'{table[outcome.name].budget_s:>7} s'
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
        elif outcome.word in ('skipped', 'unstable'):
            print(f'{outcome.name}: {outcome.word}, {outcome.note}')
        if outcome.seconds > 1.5 * table[outcome.name].budget_s:
            print(f'{outcome.name}: slow, no failure')
    ran = [each.counts for each in outcomes if each.word != 'recorded']
    print(said(sum(ran, Counts())))


def with_the_lab(names: list[str], everything: bool) -> list[str]:
    """The parts to run, with what has to become of the lab.

    All of them want a lab as a fresh machine has it, with nobody's servers,
    and so do some of them on a machine without a lab: one that died has left
    its database. On a lab that is there some of them run, and leave it there.
    """
    if everything:
        return ['lab-down', *names]
    if parts.ON_THE_LAB & set(names) and lab_is('the lab is down'):
        return ['lab-down', *names, 'lab-down']
    return names


def outcomes_of(
    names: list[str], table: dict[str, Part], lookup: bool, limit_s: float
) -> Iterator[Outcome]:
    """Run parts, each as it is asked for."""
    begin = time.monotonic()
    for name in names:
        elapsed = time.monotonic() - begin
        print(f'[{elapsed:5.0f} s] {name}: {table[name].title}', flush=True)
        found = recorded(name, table[name]) if lookup else None
        outcome = found or run_part(name, table[name], limit_s)
        show(outcome)
        yield outcome


def entry(outcome: Outcome) -> dict[str, Any]:
    """Return what is recorded of a part."""
    return {
        'word': outcome.word,
        'key': outcome.key,
        'seconds': round(outcome.seconds, 1),
        'counts': dict(outcome.counts),
        'note': outcome.note,
    }


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
        done = records.parts_of(tree, 'full')
        wanted = [
            name for name in wanted
            if name not in done or name.startswith('lab-down')
        ]  # fmt: skip
        print(f'shown already of this tree: {", ".join(sorted(done)) or "-"}')
    meter = records.Meter()
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        for outcome in outcomes_of(
            with_the_lab(wanted, not names),
            table,
            not full and not names,
            FULL_LIMIT_S if full else LIMIT_S,
        ):
            outcomes.append(outcome)
    finally:
        unstable = [name for each in outcomes for name in each.unstable]
        often = records.often_unstable(unstable) if full else []
        bad = bool(often) or any(each.word == 'FAILED' for each in outcomes)
        if records.tree() != tree:
            # Some of it ran with files that are here no longer.
            tree = ''
            for each in outcomes:
                each.key = ''
        records.append(
            'runs.jsonl',
            {
                'at': records.now(),
                'tree': tree,
                'commit': records.commit(),
                'form': 'full' if full else 'gate',
                'whole': not names,
                'ok': not bad and sys.exc_info()[0] is None,
                'seconds': round(time.monotonic() - begin),
                'parts': {each.name: entry(each) for each in outcomes},
                'unstable': unstable,
                **meter.read(),
            },
        )
    summary(outcomes, table)
    if often:
        print(f'unstable more than once lately: {", ".join(often)}')
    return int(bad)


def main(words: list[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--full', action='store_true')
    parser.add_argument('--shown', action='store_true')
    parser.add_argument('--unstable', action='store_true')
    parser.add_argument('--note-tested', action='store_true')
    parser.add_argument('--note-full', action='store_true')
    parser.add_argument('names', nargs='*', metavar='PART')
    options = parser.parse_args(words)
    if options.shown or options.unstable:
        found = records.last_full() if options.shown else records.unstable()
        print('\n'.join(found) or 'none')
        return 0
    # As an interrupt from the keyboard: the part that runs is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.note_tested:
            print(records.note_tested())
            return 0
        if options.note_full:
            print(records.note_full())
            return 0
        with records.alone():
            return check(options.names, options.full)
    except (LookupError, TimeoutError) as error:
        print(f'check: {error}')
        return 1


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit('check: interrupted')
