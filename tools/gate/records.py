# SPDX-License-Identifier: Apache-2.0
"""Records of what was shown green, of which content, and what was unstable.

Each run adds a line of JSON to a file in $NOVA_RT_GREEN (default
/var/lib/nova-rt-green). The last green runs of what takes a kernel are in
kernel/tested.toml as well, so that a fresh machine need not build an unchanged
one.
"""

import collections
from collections.abc import Iterable, Iterator
import contextlib
import dataclasses
import datetime
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from typing import Any

from tools.gate import parts, places

_HEAVY_S = 900
#: An unstable test is a fault if it was it so often in so many runs.
_RECENT, _OFTEN = 20, 2


@dataclasses.dataclass(frozen=True)
class Shown:
    """An earlier run in which a part passed.

    :ivar date: year, month and day
    :ivar counts: passed, failed, skipped -> number
    """

    date: str
    counts: dict[str, int]
    where: str


def _git(*words: str, **environment: str) -> str:
    done = subprocess.run(
        ['git', *words],
        cwd=places.ROOT,
        env=places.ENVIRONMENT | environment,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return done.stdout.strip()


def commit() -> str:
    """Return the commit that is checked out; '' without git."""
    try:
        return _git('rev-parse', 'HEAD')
    except (OSError, subprocess.CalledProcessError):
        return ''


def tree() -> str:
    """Return git's name of the files as they are, untracked ones included.

    Files that a part writes count as they were committed: else, no run of
    that part would be of one tree. The index and the objects of the checkout
    stay as they are.

    :return: '' without git
    """
    with tempfile.TemporaryDirectory() as top:
        try:
            objects = _git(
                'rev-parse', '--path-format=absolute', '--git-path', 'objects'
            )
            environment = {
                'GIT_INDEX_FILE': f'{top}/index',
                'GIT_OBJECT_DIRECTORY': top,
                'GIT_ALTERNATE_OBJECT_DIRECTORIES': objects,
            }
            _git('read-tree', 'HEAD', **environment)
            written = [
                f':(exclude){name}'
                for part in parts.FULL.values()
                for name in part.writes
            ]
            _git('add', '--all', '--', '.', *written, **environment)
            return _git('write-tree', **environment)
        except (OSError, subprocess.CalledProcessError):
            return ''


@functools.cache
def _files() -> list[str]:
    """Return all files that git has or would have; none without git."""
    words = ('ls-files', '-z', '--cached', '--others', '--exclude-standard')
    try:
        names = _git(*words).split('\0')
    except (OSError, subprocess.CalledProcessError):
        return []
    return sorted({n for n in names if n and (places.ROOT / n).is_file()})


@functools.cache
def _digest(name: str) -> str:
    path = places.ROOT / name
    mode = 'x' if os.access(path, os.X_OK) else '-'
    return f'{name} {mode} {hashlib.sha256(path.read_bytes()).hexdigest()}'


@functools.cache
def _machine() -> str:
    """Return what of the machine decides results."""
    bindep = (places.ROOT / 'bindep.txt').read_text()
    names = re.findall(r'^([a-z0-9][a-z0-9.+-]*) ', bindep, re.M)
    packages = subprocess.run(
        ['dpkg-query', '-W', '-f', '${Package} ${Version}\n', *names],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout
    return '\n'.join([platform.release(), sys.version, packages])


def key(part: parts.Part) -> str:
    """Return what stands for the content that decides a part's result.

    :return: '' for a part that always runs, and without git
    """
    if not part.inputs or not _files():
        return ''
    inputs = part.inputs
    digests = [
        _digest(name)
        for name in _files()
        if any(
            each in ('.', name) or name.startswith(f'{each}/')
            for each in inputs
        )
    ]
    steps = [(step.command[1:], step.environment) for step in part.steps]
    text = '\n'.join([
        json.dumps(steps, sort_keys=True),
        *digests,
        '' if part.portable else _machine(),
    ])  # fmt: skip
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Read a file of records; what a killed run has left half is left out."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(errors='replace').splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return [each for each in found if isinstance(each, dict)]


def runs() -> list[dict[str, Any]]:
    """Return all recorded runs, the latest last."""
    return _lines(places.GREEN / 'runs.jsonl')


def append(name: str, record: dict[str, Any]) -> None:
    """Add a record to a file."""
    places.GREEN.mkdir(parents=True, exist_ok=True)
    with (places.GREEN / name).open('a') as file:
        file.write(json.dumps(record, sort_keys=True) + '\n')


def shown(name: str, part: parts.Part) -> Shown | None:
    """Return the latest run in which a part of this content passed."""
    wanted = key(part)
    if not wanted:
        return None
    for run in reversed(runs()):
        found = run.get('parts', {}).get(name, {})
        if found.get('key') == wanted and found.get('word') == 'passed':
            return Shown(
                run['at'][:10], found['counts'], f'commit {run["commit"][:12]}'
            )
    found = _tested().get(name, {})
    if found.get('key') != wanted:
        return None
    return Shown(str(found['date']), found['counts'], places.TESTED.name)


def _tested() -> dict[str, dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        return tomllib.loads(places.TESTED.read_text())
    return {}


def note_tested() -> str:
    """Write kernel/tested.toml: what has passed of the kernel as it is.

    :return: what is said of it
    :raises LookupError: if no green run of one of the parts is recorded, here
        or in the file
    """
    text = (
        '# SPDX-License-Identifier: Apache-2.0\n'
        '# The last green runs of `make kernel` and `make model`. `make '
        'kernel-tested`\n# writes this; the gate builds no kernel as long as '
        'the keys fit.\n'
    )
    lines = []
    for name, part in parts.GATE.items():
        if part.portable:
            found = _last_green(name, key(part))
            counts = ', '.join(
                f'{k} = {n}' for k, n in found['counts'].items()
            )
            text += (
                f'\n[{name}]\n'
                f'key = "{found["key"]}"\n'
                f'date = {found["date"]}\n'
                f'seconds = {round(found["seconds"])}\n'
                f'counts = {{ {counts} }}\n'
            )
            lines.append(f'{name}: {found["date"]}, {counts}')
    places.TESTED.write_text(text)
    return '\n'.join([str(places.TESTED), *lines])


def _last_green(name: str, wanted: str) -> dict[str, Any]:
    for run in reversed(runs()):
        found = run.get('parts', {}).get(name, {})
        if found.get('key') == wanted and found['word'] == 'passed':
            return {'date': run['at'][:10], **found}
    found = _tested().get(name, {})
    if found.get('key') != wanted:
        raise LookupError(f'no green run of this {name} is recorded here')
    return dict(found)


def parts_of(wanted: str, form: str) -> set[str]:
    """Return the parts that have passed in this form of this very tree."""
    return {
        name
        for run in runs()
        if wanted and run.get('tree') == wanted and run.get('form') == form
        for name, found in run.get('parts', {}).items()
        if found.get('word') == 'passed'
    }


def _full() -> dict[str, dict[str, Any]]:
    """Return the latest green run of each part of the long form.

    :return: part -> at, commit, seconds, counts
    """
    found: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(FileNotFoundError):
        found = tomllib.loads(places.SHOWN.read_text())
    for run in runs():
        if run.get('form') != 'full' or not run.get('tree'):
            continue
        for name, each in run['parts'].items():
            before = found.get(name, {}).get('at', '')
            if each['word'] == 'passed' and run['at'] > before:
                found[name] = {
                    'at': run['at'],
                    'commit': run['commit'],
                    'seconds': round(each['seconds']),
                    'counts': each['counts'],
                }
    return {name: found[name] for name in parts.FULL if name in found}


def note_full() -> str:
    """Write tools/gate/shown.toml: what the long form has shown so far.

    Machines are short-lived, and the long form takes longer than some.

    :return: what is said of it
    """
    found = _full()
    text = (
        '# SPDX-License-Identifier: Apache-2.0\n'
        '# The latest green run of each part of the long form.\n'
        '# `python -m tools.check --note-full` writes this.\n'
    )
    for name, each in found.items():
        counts = ', '.join(f'{k} = {n}' for k, n in each['counts'].items())
        text += (
            f'\n[{name}]\n'
            f'at = "{each["at"]}"\n'
            f'commit = "{each["commit"]}"\n'
            f'seconds = {each["seconds"]}\n'
            f'counts = {{ {counts} }}\n'
        )
    places.SHOWN.write_text(text)
    return f'{places.SHOWN}: {len(found)} of {len(parts.FULL)} parts'


def last_full() -> Iterator[str]:
    """List the parts of the long form, with when each was shown last."""
    found = _full()
    for name, part in parts.FULL.items():
        if name not in found:
            yield f'{name:<22}never'
            continue
        each = found[name]
        changed = _changed(each['commit'], part.inputs or ('.',))
        yield (
            f'{name:<22}{each["at"][:16]}  {each["commit"][:12]}'
            f'{each["seconds"]:>7} s  {changed}'
        )


def _changed(since: str, inputs: Iterable[str]) -> str:
    try:
        names = _git('diff', '--name-only', since, '--', *inputs)
    except subprocess.CalledProcessError:
        return 'that commit is not here'
    number = len(names.splitlines())
    return f'{number} files changed since' if number else 'unchanged since'


def often_unstable(now: Iterable[str]) -> list[str]:
    """Return the tests that were unstable more than once, lately.

    :param now: those of the run that is not recorded yet
    """
    counted = collections.Counter(now)
    for run in runs()[1 - _RECENT :]:
        counted.update(run.get('unstable', ()))
    return sorted(name for name, n in counted.items() if n >= _OFTEN)


def unstable() -> Iterator[str]:
    """List what passed only in its second run."""
    for each in _lines(places.GREEN / 'unstable.jsonl'):
        yield (
            f'{each["at"][:16]}  {each["commit"][:12]}  load {each["load"]}'
            f'  steal {each["steal_percent"]} %  {each["test"]}'
        )


class Meter:
    """Load and steal of the machine since it was made."""

    def __init__(self) -> None:
        self._began = self._read()

    @staticmethod
    def _read() -> tuple[int, int]:
        line = pathlib.Path('/proc/stat').read_text().splitlines()[0]
        ticks = [int(word) for word in line.split()[1:9]]
        return ticks[7], sum(ticks)

    def read(self) -> dict[str, float]:
        """Return the load, and the percentage of time that was stolen."""
        stolen, total = (
            now - then
            for now, then in zip(self._read(), self._began, strict=True)
        )
        return {
            'load': round(os.getloadavg()[0], 1),
            'steal_percent': round(100 * stolen / max(total, 1), 1),
        }


def now() -> str:
    """Return the time, UTC, as records have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other check runs on this machine.

    :raises TimeoutError: with the process that holds it, after some minutes
    """
    places.GREEN.mkdir(parents=True, exist_ok=True)
    with (places.GREEN / 'lock').open('a+') as file:
        deadline = time.monotonic() + _HEAVY_S
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip()
            if time.monotonic() > deadline:
                raise TimeoutError(f'process {holder} still runs a check')
            if not waiting:
                print(f'waiting for the check of process {holder}', flush=True)
                waiting = True
            time.sleep(1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
