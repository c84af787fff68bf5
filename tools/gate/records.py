# SPDX-License-Identifier: Apache-2.0
"""Records of the parts that have passed, and of which content.

Each part that passes adds a line of JSON to a file in $NOVA_RT_GREEN (default
/var/lib/nova-rt-green). The last green runs of the kernel and of the model are
in kernel/tested.toml as well, so that a fresh machine need not build an
unchanged kernel.
"""

from collections.abc import Iterator
import contextlib
import datetime
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from typing import Any

from tools.gate import parts, places


def _git(*words: str) -> str:
    """Return the output of git; '' without git."""
    try:
        done = subprocess.run(
            ['git', *words],
            cwd=places.ROOT,
            env=places.ENVIRONMENT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ''
    return done.stdout.strip()


def _files() -> list[str]:
    """Return all files that git has or would have; none without git."""
    words = ('ls-files', '-z', '--cached', '--others', '--exclude-standard')
    names = _git(*words).split('\0')
    return sorted({n for n in names if n and (places.ROOT / n).is_file()})


def _digest(name: str) -> str:
    path = places.ROOT / name
    mode = 'x' if os.access(path, os.X_OK) else '-'
    return f'{name} {mode} {hashlib.sha256(path.read_bytes()).hexdigest()}'


def tree() -> str:
    """Return a hash of all files, except those that a part writes.

    :return: '' without git
    """
    written = {name for part in parts.FULL.values() for name in part.writes}
    digests = [_digest(name) for name in _files() if name not in written]
    if not digests:
        return ''
    return hashlib.sha256('\n'.join(digests).encode()).hexdigest()


@functools.cache
def _machine() -> str:
    """Describe the machine as far as results depend on it."""
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
    """Return a hash of the content that decides a part's result.

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


def _passed() -> list[dict[str, Any]]:
    """Return all recorded parts, the latest last.

    A half-written line of a killed run is left out.
    """
    found = []
    with contextlib.suppress(FileNotFoundError):
        text = (places.GREEN / 'passed.jsonl').read_text(errors='replace')
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def append(**fields: Any) -> None:
    """Record that a part has passed.

    :param fields: part, form, tree, key, seconds, counts
    """
    now = datetime.datetime.now(datetime.UTC)
    fields['at'] = now.isoformat(timespec='seconds')
    fields['commit'] = _git('rev-parse', 'HEAD')
    places.GREEN.mkdir(parents=True, exist_ok=True)
    with (places.GREEN / 'passed.jsonl').open('a') as file:
        file.write(json.dumps(fields, sort_keys=True) + '\n')


def passed_of(tree: str) -> set[str]:
    """Return the parts of the long form that have passed of this very tree."""
    return {
        each['part']
        for each in _passed()
        if tree and (each['tree'], each['form']) == (tree, 'full')
    }


def _latest(name: str, wanted: str) -> dict[str, Any] | None:
    found = [
        each
        for each in _passed()
        if wanted and (each['part'], each['key']) == (name, wanted)
    ]
    return found[-1] if found else None


def _tested() -> dict[str, dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        return tomllib.loads(places.TESTED.read_text())
    return {}


def shown(name: str, part: parts.Part) -> tuple[dict[str, int], str] | None:
    """Return the latest run in which a part of this content passed.

    :returns: the numbers of its tests, and when and where it ran
    """
    wanted = key(part)
    if found := _latest(name, wanted):
        commit = f'commit {found["commit"][:12]}'
        return found['counts'], f'{found["at"][:10]}, {commit}'
    noted = _tested().get(name, {})
    if not wanted or noted.get('key') != wanted:
        return None
    return noted['counts'], f'{noted["date"]}, {places.TESTED.name}'


def note_tested() -> str:
    """Write kernel/tested.toml: the green runs of the present kernel.

    :return: lines to print
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
    if found := _latest(name, wanted):
        return {'date': found['at'][:10], **found}
    noted = _tested().get(name, {})
    if noted.get('key') != wanted:
        raise LookupError(f'no green run of this {name} is recorded here')
    return noted


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other check runs on this machine."""
    places.GREEN.mkdir(parents=True, exist_ok=True)
    with (places.GREEN / 'lock').open('a+') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            print(
                f'waiting for the check of process {file.read()}', flush=True
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
