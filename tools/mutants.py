# SPDX-License-Identifier: Apache-2.0
"""Put a fault into a copy of the checkout; the checks must find it.

    python -m tools.mutants [NAME ...]

tools/gate/mutants.toml has a fault for each part of the gate, for some of the
long form, and for suites that were dropped because other tests hold their
promise. All of them are tried, or those that are named. A fault is found if
the part, or the tests that its entry names, fail and their output names the
right test. A part takes as long as in the gate, and that of the kernel
as long as to build one. Exit code 1: a fault was not found.
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

from tools.gate import parts, places

TABLE = pathlib.Path(__file__).parent / 'gate/mutants.toml'
TOP = places.RUN / 'mutant'


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fault that the checks have to find.

    :ivar fault: its effect on a user, an operator or a reader
    :ivar old: text that is once in the file
    :ivar new: takes its place
    :ivar finds: regular expression that the output must match
    :ivar before: command to run in the copy before the part
    :ivar tests: names of the tests that find it, instead of a whole part
    """

    fault: str
    file: str
    old: str
    new: str
    finds: str
    before: str = ''
    tests: str = ''

    def put_into(self, top: pathlib.Path) -> None:
        """Change the file below a directory.

        :raises LookupError: if the text is not there exactly once
        """
        path = top / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LookupError(
                f'{self.file} has {self.old!r} {text.count(self.old)} times'
            )
        path.write_text(text.replace(self.old, self.new))


def load() -> dict[str, Mutant]:
    """Read the table: part, or another name -> its fault."""
    found = tomllib.loads(TABLE.read_text())
    return {name: Mutant(**fields) for name, fields in found.items()}


def _run(log: pathlib.Path, *command: str, **environment: str) -> int:
    """Run a command in the copy; return its exit code."""
    with log.open('ab') as output:
        return subprocess.run(
            command,
            cwd=TOP,
            env=places.ENVIRONMENT | environment,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode


def is_found(name: str, mutant: Mutant) -> bool:
    """Run a part, or some tests, on a copy of the checkout with a fault.

    :return: whether they have failed by it
    """
    shutil.rmtree(TOP, ignore_errors=True)
    TOP.mkdir(parents=True)
    log = places.LOGS / f'mutant-{name}.log'
    log.unlink(missing_ok=True)
    if _run(log, 'git', 'clone', '-q', str(places.ROOT), '.'):
        raise RuntimeError(f'git clone failed; the log: {log}')
    mutant.put_into(TOP)
    if mutant.tests:
        part = (
            'functional-threading' if 'functional' in mutant.tests else 'unit'
        )
        code = _run(
            log,
            *(sys.executable, '-m', 'testtools.run', *mutant.tests.split()),
            **parts.GATE[part].steps[-1].environment,
        )
    else:
        for command in ('tools/bootstrap.sh', mutant.before or 'true'):
            if _run(log, *command.split()):
                raise RuntimeError(f'{command} failed; the log: {log}')
        form = [] if name in parts.GATE else ['--full']
        code = _run(log, sys.executable, '-m', 'tools.check', *form, name)
        log = places.LOGS / f'{name}.log'
    text = log.read_text(errors='replace')
    return code == 1 and re.search(mutant.finds, text) is not None


def main(names: list[str]) -> int:
    """Try faults; return the exit code."""
    table = load()
    unknown = [name for name in names if name not in table]
    if unknown:
        print(f'no such fault: {unknown[0]}; there are {", ".join(table)}')
        return 2
    places.LOGS.mkdir(parents=True, exist_ok=True)
    wanted = {name: table[name] for name in names or table}
    missed = []
    try:
        for name, mutant in wanted.items():
            begin = time.monotonic()
            found = is_found(name, mutant)
            seconds = time.monotonic() - begin
            word = 'found' if found else 'NOT FOUND'
            print(
                f'{name:<22}{word:<11}{seconds:>6.0f} s  {mutant.fault}',
                flush=True,
            )
            if not found:
                missed.append(name)
    finally:
        shutil.rmtree(TOP, ignore_errors=True)
        if not all(mutant.tests for mutant in wanted.values()):
            # The environment has the wheel of the last copy.
            subprocess.run(
                ['tools/bootstrap.sh'],
                cwd=places.ROOT,
                env=places.ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
    return int(bool(missed))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
