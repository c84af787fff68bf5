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


def _copy(top: pathlib.Path) -> None:
    shutil.rmtree(top, ignore_errors=True)
    subprocess.run(
        ['git', 'clone', '-q', str(places.ROOT), str(top)],
        env=places.ENVIRONMENT,
        check=True,
    )


def try_tests(name: str, mutant: Mutant) -> bool:
    """Run some tests on a copy with a fault.

    :return: whether they have failed by it
    """
    top = places.RUN / 'mutant'
    _copy(top)
    mutant.put_into(top)
    part = 'functional-threading' if 'functional' in mutant.tests else 'unit'
    done = subprocess.run(
        [sys.executable, '-m', 'testtools.run', *mutant.tests.split()],
        cwd=top,
        env=places.ENVIRONMENT | parts.GATE[part].steps[-1].environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (places.LOGS / f'mutant-{name}.log').write_text(done.stdout)
    return done.returncode == 1 and bool(re.search(mutant.finds, done.stdout))


def try_part(part: str, mutant: Mutant) -> bool:
    """Run a part on a copy with its fault.

    :return: whether the part has failed by it
    """
    top = places.RUN / 'mutant'
    _copy(top)
    mutant.put_into(top)
    commands = [['tools/bootstrap.sh']]
    if mutant.before:
        commands.append(mutant.before.split())
    with (places.LOGS / f'mutant-{part}.log').open('wb') as log:
        for command in commands:
            subprocess.run(
                command,
                cwd=top,
                env=places.ENVIRONMENT,
                stdout=log,
                stderr=log,
                check=True,
            )
        form = [] if part in parts.GATE else ['--full']
        code = subprocess.run(
            [sys.executable, '-m', 'tools.check', *form, part],
            cwd=top,
            env=places.ENVIRONMENT,
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
    text = (places.LOGS / f'{part}.log').read_text(errors='replace')
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
            found = (try_tests if mutant.tests else try_part)(name, mutant)
            seconds = time.monotonic() - begin
            word = 'found' if found else 'NOT FOUND'
            print(
                f'{name:<22}{word:<11}{seconds:>6.0f} s  {mutant.fault}',
                flush=True,
            )
            if not found:
                missed.append(name)
    finally:
        if not all(mutant.tests for mutant in wanted.values()):
            # The environment has the wheel of the last copy.
            subprocess.run(
                ['tools/bootstrap.sh'],
                cwd=places.ROOT,
                env=places.ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        shutil.rmtree(places.RUN / 'mutant', ignore_errors=True)
    return int(bool(missed))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
