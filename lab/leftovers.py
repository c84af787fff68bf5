# SPDX-License-Identifier: Apache-2.0
"""Find and remove remains of the lab on the machine.

Things are found by their kind, not by the lab's own notes, so that this works
after a crash as well. The one note lists the things that were there before the
lab.
"""

import contextlib
import errno
import json
import os
import pathlib
import re
import subprocess

from lab import namespace, paths, process

CGROUPS = pathlib.Path('/sys/fs/cgroup')
PARTITION = 'machine'
#: Name and disk of the second compute's machine, see :mod:`lab.second`.
SECOND = f'{namespace.HOST_NAME}-2'
SECOND_VAR = paths.VAR / 'machine-2'
_NET = pathlib.Path('/sys/class/net')
_LOOPS = pathlib.Path('/sys/block')
# What the kernel calls a removed disk of the second machine, once its mounts
# are gone: the path begins where the mount did, which was at SECOND_VAR.
_REMOVED = re.compile(r'/instances/[0-9a-f-]{36}\w*/disk[\w.]* \(deleted\)')
_INTERFACE = re.compile(r'br-ex|br-int|ovs-netdev|tap[0-9a-f]{8}-[0-9a-f]{2}')


def remember_host() -> None:
    """Note the control groups and interfaces that are not the lab's."""
    if not paths.HOST_BEFORE.exists():
        paths.HOST_BEFORE.write_text(
            json.dumps(
                {
                    'cgroups': [str(path) for path in _partitions()],
                    'interfaces': sorted(os.listdir(_NET)),
                }
            )
        )


def forget_host() -> None:
    """Drop the note; nothing of the lab is left."""
    paths.HOST_BEFORE.unlink(missing_ok=True)


def find() -> list[str]:
    """Return a line for each thing of the lab that is on the machine."""
    found = [
        f'process {member.pid} ({_command(member.pid)})'
        for member in namespace.members() + container_processes()
    ]
    mounts = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    work = f'{paths.WORK}/'
    found += [
        f'mount on {fields[4]}'
        for fields in map(str.split, mounts)
        if fields[4].startswith(work)
    ]
    found += [f'loop device {device}' for device in _loops()]
    before = _host_before()
    if before:
        found += [
            f'control group {path}'
            for path in _partitions()
            if str(path) not in before['cgroups']
        ]
        found += [
            f'network interface {name}'
            for name in sorted(os.listdir(_NET))
            if _INTERFACE.fullmatch(name) and name not in before['interfaces']
        ]
    return found


def container_processes() -> list[process.Process]:
    """Return processes of containers, known by their root file systems."""
    roots = [f' - ext4 {device} ' for device in _loops()]
    found = []
    for pid in process.pids():
        member = process.identify(pid)
        mounts = namespace.mounts(pid)
        if member and any(root in mounts for root in roots):
            found.append(member)
    return found


def detach_loops() -> None:
    """Free the loop devices of the lab's disks."""
    for device in _loops():
        subprocess.run(
            ['losetup', '--detach', device], capture_output=True, check=False
        )


def remove_cgroups() -> None:
    """Remove libvirt's control groups if the lab's libvirt made them.

    One that still holds something is kept; :func:`find` reports it.
    """
    before = _host_before()
    if not before:
        return
    for partition in _partitions():
        if str(partition) in before['cgroups']:
            continue
        for directory, _, _ in os.walk(partition, topdown=False):
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                    raise


def _host_before() -> dict[str, list[str]] | None:
    try:
        return json.loads(paths.HOST_BEFORE.read_text())
    except FileNotFoundError:
        return None


def _partitions() -> list[pathlib.Path]:
    # Of every v1 hierarchy, or of the one of v2.
    hierarchies = [CGROUPS, *CGROUPS.iterdir()]
    return [
        hierarchy / name
        for hierarchy in hierarchies
        for name in (PARTITION, SECOND)
        if not hierarchy.is_symlink() and (hierarchy / name).is_dir()
    ]


def _loops() -> list[str]:
    found = []
    for block in _LOOPS.glob('loop*'):
        # Detached between the listing and the reading: not ours any more.
        with contextlib.suppress(FileNotFoundError):
            backing = (block / 'loop' / 'backing_file').read_text()
            if backing.startswith(f'{paths.VAR}/'):
                found.append(f'/dev/{block.name}')
    return sorted({*found, *second_disks()})


def second_disks() -> list[str]:
    """Return the loop devices of disks of the second machine.

    By their inodes. While it lives, it sees its disks where the first has its
    own; once its mounts are gone, the path of an attached one begins nowhere.
    A disk that was removed has no inode here: it is known by that path, on the
    file system of the lab.
    """
    inodes = set()
    for file in SECOND_VAR.rglob('disk*'):
        with contextlib.suppress(FileNotFoundError):
            found = file.stat()
            inodes.add((_device(found.st_dev), found.st_ino))
    columns = 'NAME,BACK-FILE,BACK-INO,BACK-MAJ:MIN'
    listed = subprocess.run(
        ['losetup', '--list', '--json', '--output', columns],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    devices = json.loads(listed)['loopdevices'] if listed else []
    return sorted(
        each['name']
        for each in devices
        if (each['back-maj:min'].strip(), each['back-ino']) in inodes
        or _is_removed(each)
    )


def _is_removed(loop: dict[str, str]) -> bool:
    """Return whether a device has a removed disk of the second machine."""
    parents = (SECOND_VAR, *SECOND_VAR.parents)
    there = next(path for path in parents if path.exists())
    return _REMOVED.fullmatch(
        loop.get('back-file') or ''
    ) is not None and loop['back-maj:min'].strip() == _device(
        there.stat().st_dev
    )


def _device(number: int) -> str:
    return f'{os.major(number)}:{os.minor(number)}'


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        text = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
        return text.replace('\0', ' ').strip()[:80]
    return 'gone'
