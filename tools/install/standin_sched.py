# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the package nova-rt-sched, for kernels without sched_ext.

It has the unit of the package, and a program that starts, serves and stops as
the daemon does, without a scheduler. For tests alone.
"""

import pathlib

from tools.gate.places import ROOT
from tools.install.commands import empty, run

PACKAGE = 'nova-rt-sched_1.0_all.deb'
#: What the role looks at: of a kernel with sched_ext, and of one without.
USABLE = '/srv/usable'
UNUSABLE = '/srv/unusable'
_UNIT = ROOT / 'scx' / 'nova-rt-sched.service'
_CONTROL = """\
Package: nova-rt-sched
Version: 1.0
Architecture: all
Maintainer: nova_rt contributors <nova-rt@packages.debian.org>
Description: stand-in for nova-rt-sched, for tests of nova_rt
"""
_PROGRAM = """\
#!/usr/bin/python3
import os, socket, sys, time
if sys.argv[1:] == ['--check']:
    sys.exit(0)
path = '/run/nova-rt-sched/socket'
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(os.environ['NOTIFY_SOCKET'])
manager.send(b'READY=1')
while True:
    time.sleep(1)
    manager.send(b'WATCHDOG=1')
"""


def build(directory: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """Build the package.

    :returns: the file
    """
    root = empty(directory / 'sched')
    root.chmod(0o755)
    for name, text, mode in (
        ('DEBIAN/control', _CONTROL, 0o644),
        ('usr/sbin/nova-rt-sched', _PROGRAM, 0o755),
        ('usr/lib/systemd/system/nova-rt-sched.service',
         _UNIT.read_text(), 0o644),
    ):  # fmt: skip
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    made = directory / PACKAGE
    run(['dpkg-deb', '--root-owner-group', '--build', root, made], log)
    return made


def add_kernels(tree: pathlib.Path) -> None:
    """Add to a tree what the role looks at."""
    groups = 'fs/cgroup/cgroup.controllers'
    for place, files in (
        (USABLE, {
            'kernel/sched_ext/state': 'disabled\n',
            'kernel/btf/vmlinux': 'scx_bpf_task_cgroup\0',
            groups: 'cpu\n',
        }),
        (UNUSABLE, {groups: 'cpu\n'}),
    ):  # fmt: skip
        for name, text in files.items():
            file = tree / place.lstrip('/') / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
