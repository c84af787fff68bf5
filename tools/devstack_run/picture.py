# SPDX-License-Identifier: Apache-2.0
"""Content of the container, and additions to it since a time.

DevStack, and the packages that it installs, leave much behind on purpose: its
documentation says that packages and checkouts stay. Remains of a plug-in are
known by their marks: by names and texts that nobody else writes. Everything
that was there before must be as it was, unless a package or DevStack itself
changes it.
"""

from collections.abc import Iterator
import dataclasses
import json
import os
import pathlib
import re
import stat

from lab.console import LabError
from tools.devstack_run import machine, mirrors, places

#: Names, settings and ids that only nova_rt brings into a machine.
MARKS = re.compile(
    rb'nova[-_]rt|CUSTOM_RT_|RTBandwidth|rt_reservation|rt-busybox'
    rb'|2000224256|install nbd',
    re.IGNORECASE,
)
#: Not ours to judge: checkouts and what was built in them, which DevStack
#: keeps, and what only records what was done.
IGNORED = {
    *(f'opt/stack/{name}' for name in (*mirrors.NAMES, 'nova_rt')),
    *('opt/stack/.cache', 'opt/stack/logs'),
    *('proc', 'srv/git', 'sys', 'root/.cache', 'var/cache', 'var/log'),
    *('var/lib/apt', 'var/lib/dpkg'),
}
#: Scripts that ask the container something; each answer is a list of lines.
QUESTIONS = {
    'accounts': 'cut -d: -f1,3 /etc/passwd; sed s/^/group:/ /etc/group',
    'control groups': 'cd /sys/fs/cgroup && find . -path "*machine*" -type d',
    # Those of packages go with them.
    'diversions': 'dpkg-divert --list | grep ^local || true',
    'interfaces': 'ls /sys/class/net',
    # Those of the whole machine are seen in here.
    'loop devices': 'losetup --list --noheadings --output BACK-FILE | '
    'grep ^/opt/stack/ || true',
    # Packages mask some of their own, in /lib.
    'masked units': 'find /etc/systemd/system /run/systemd/system '
    '-lname /dev/null -printf "%f\\n"',
    'mounts': 'cut -d" " -f5 /proc/self/mountinfo',
    'packages': "dpkg-query -W -f '${Package}\\n'",
    'processes': 'ps -e -ww -o args=',
    'real-time budgets': """
        cd /sys/fs/cgroup/cpu
        find . -mindepth 2 -name cpu.rt_runtime_us |
        while read -r file; do echo "$file $(cat "$file")"; done |
        grep -v " 0$" || true""",
    'run': 'find /run /tmp /dev/shm -xdev | grep -v /user/ || true',
    'units': 'systemctl list-unit-files --no-legend --plain | cut -d" " -f1,2',
    'units that failed': 'systemctl list-units --failed --no-legend --plain '
    '| cut -d" " -f1',
}
#: Of these, every new line is one too many; of the others, marked lines are.
STRICT = (
    *('control groups', 'diversions', 'loop devices', 'masked units'),
    'real-time budgets',
)

#: A file: kind and mode, owner, group, size, time of change, target of a link.
_Entry = list[int | str]


@dataclasses.dataclass(frozen=True)
class Picture:
    """State of the container at a moment.

    :ivar files: path in the tree -> kind and content
    :ivar answers: question -> lines
    """

    files: dict[str, _Entry]
    answers: dict[str, list[str]]


def take() -> Picture:
    """Look at the tree and at its processes."""
    return Picture(
        dict(walk(places.ROOT)),
        {
            name: sorted(set(machine.ask(script).splitlines()))
            for name, script in QUESTIONS.items()
        },
    )


def walk(root: pathlib.Path) -> Iterator[tuple[str, _Entry]]:
    """Go through the files of a tree, without those that nobody judges."""
    for directory, names, files in os.walk(root):
        here = os.path.relpath(directory, root)
        here = '' if here == '.' else f'{here}/'
        names[:] = [name for name in names if here + name not in IGNORED]
        for name in (*names, *files):
            path = os.path.join(directory, name)
            found = os.lstat(path)
            link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ''
            entry: _Entry = [found.st_mode, found.st_uid, found.st_gid]
            if not stat.S_ISDIR(found.st_mode):
                entry += [found.st_size, found.st_mtime_ns, link]
            yield here + name, entry


def left(
    before: Picture, now: Picture, root: pathlib.Path = places.ROOT
) -> list[str]:
    """List our new or changed files and the missing ones, one a line."""
    found = []
    owned = packaged(root)
    for path, entry in sorted(now.files.items()):
        if before.files.get(path) == entry or path in owned:
            continue
        if mark := marked(root, path):
            kind = 'changed' if path in before.files else 'new'
            found.append(f'{kind} file /{path}: {mark}')
    found += [
        f'file that is gone: /{path}'
        for path in sorted(before.files)
        if path not in now.files and not path.startswith(_PACKAGED)
    ]
    for name, lines in now.answers.items():
        old = set(before.answers.get(name, ()))
        found += [
            f'{name}: {line}'
            for line in lines
            if line not in old
            and (name in STRICT or MARKS.search(line.encode()))
        ]
    return found


#: Here packages come and go.
_PACKAGED = ('lib/', 'usr/', 'var/', 'etc/alternatives/', 'run/', 'tmp/')


def packaged(root: pathlib.Path, under: str = 'usr/') -> set[str]:
    """Return the files of packages; in /usr, nobody is to edit them."""
    found = set()
    for names in (root / 'var' / 'lib' / 'dpkg' / 'info').glob('*.list'):
        for line in names.read_text().splitlines():
            path = line.lstrip('/')
            # /lib is a link into /usr; packages know both.
            path = path if path.startswith(('etc/', 'usr/')) else f'usr/{path}'
            if path.startswith(under):
                found.add(path)
    return found


def marked(root: pathlib.Path, path: str) -> str:
    """Return which of our marks a file has, in its name, target or text.

    :returns: an empty text if it has none
    """
    file = root / path
    if found := MARKS.search(path.encode()):
        return f'its name has {_said(found)}'
    if file.is_symlink():
        found = MARKS.search(os.readlink(file).encode())
        return f'its target has {_said(found)}' if found else ''
    if not file.is_file():
        return ''
    with file.open('rb') as content:
        found = MARKS.search(content.read())
    return f'its text has {_said(found)}' if found else ''


def _said(found: re.Match[bytes]) -> str:
    return found[0].decode(errors='replace')


def others(
    before: Picture, now: Picture, root: pathlib.Path = places.ROOT
) -> list[str]:
    """List new files of /etc that are of no package, for a reader.

    DevStack leaves some of its own there. A mark that is missing above would
    be found here.
    """
    owned = packaged(root, 'etc/')
    return [
        path
        for path in sorted(now.files)
        if path.startswith('etc/')
        and not path.startswith(('etc/alternatives/', 'etc/rc'))
        and path not in before.files
        and path not in owned
    ]


def write(path: pathlib.Path, picture: Picture) -> None:
    """Keep a picture."""
    path.write_text(json.dumps(dataclasses.asdict(picture)))


def read(path: pathlib.Path) -> Picture:
    """Return a picture that was kept.

    :raises LabError: if there is none
    """
    if not path.exists():
        raise LabError(
            'nobody has looked before the first stack.sh; begin with '
            '"discard prepare up"'
        )
    return Picture(**json.loads(path.read_text()))
