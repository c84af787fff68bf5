# SPDX-License-Identifier: Apache-2.0
"""The lab's own network, mount and host-name namespaces.

Everything of the lab runs in them: its ports are on a loopback of its own, its
bridges and taps exist only there, its /run and libvirt's directories hide the
machine's, and nothing is ever mounted or unmounted on the machine itself. One
process, the holder, keeps them open.
"""

from collections.abc import Sequence
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from lab import paths, process
from lab.console import LabError

HOST_NAME = 'nova-rt-lab'
# The source of the tmpfs on the lab's /run: any process that sees it among its
# mounts is the lab's, whatever it calls itself.
_MARK = f'{HOST_NAME}:'
MARK = f'{_MARK}{paths.WORK}'
HOLDER_LOG = paths.LOG / 'namespace.log'
_HOLDER = paths.RUN / 'holder.json'

# Directories of libvirt that a libvirtd of the machine may use, too.
_PRIVATE = {
    '/etc/libvirt': paths.ETC / 'libvirt',
    '/var/lib/libvirt': paths.VAR / 'libvirt' / 'lib',
    '/var/cache/libvirt': paths.VAR / 'libvirt' / 'cache',
    '/var/log/libvirt': paths.LOG / 'libvirt',
}
# Files of the machine in whose place the lab has its own.
PRIVATE_FILES = {
    f'/etc/{name}': paths.ETC / name
    for name in ('hosts', 'passwd', 'group', 'sudoers')
}

# A new network namespace needs a new sysfs for its /sys/class/net, and a new
# sysfs has no cgroups: they are put aside and back. libvirt-lxc 9 cannot work
# with the v2 hierarchy that a hybrid set-up mounts beside the v1 ones, and
# would give systemd's, where no systemd makes groups, to the root of every
# container. Both go before that, because libvirt also finds hidden mounts.
_SETUP = """
mount --make-rprivate /
hostname {host}
ip link set lo up
for name in unified systemd; do
    if mountpoint -q /sys/fs/cgroup/$name; then
        umount /sys/fs/cgroup/$name
    fi
done
mount -t tmpfs -o mode=755 {mark} /run
mkdir /run/lock /run/cgroup /run/openvswitch /run/ovn
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup
rmdir /run/cgroup
{binds}
touch /run/ready
exec sleep infinity
"""


def holder() -> process.Process | None:
    """Return the process that keeps the namespaces, if it lives."""
    try:
        found = process.Process(**json.loads(_HOLDER.read_text()))
    except FileNotFoundError:
        return None
    return found if found.alive() else None


def inside() -> bool:
    """Return whether this very process is in the lab's namespaces."""
    return _has_mark(os.getpid())


def create() -> process.Process:
    """Make the namespaces and return their holder.

    The files of PRIVATE_FILES have to be there, but for the hosts.

    :raises LabError: when the machine does not allow it.
    """
    PRIVATE_FILES['/etc/hosts'].write_text(
        f'127.0.0.1 localhost {HOST_NAME}\n'
    )
    binds = [
        f'mount --bind {source} {target}'
        for target, source in PRIVATE_FILES.items()
    ]
    for target, source in _PRIVATE.items():
        source.mkdir(parents=True, exist_ok=True)
        binds.append(f'[ ! -d {target} ] || mount --bind {source} {target}')
    script = _SETUP.format(host=HOST_NAME, mark=MARK, binds='\n'.join(binds))
    command = ['unshare', '--net', '--mount', '--uts']
    command += ['--propagation', 'private', '--', 'sh', '-eu', '-c', script]
    kept = process.start(command, HOLDER_LOG, {'PATH': os.defpath}, paths.VAR)
    ready = pathlib.Path(f'/proc/{kept.pid}/root/run/ready')
    deadline = time.monotonic() + 20
    while not (_has_mark(kept.pid) and ready.exists()):
        if not kept.alive() or time.monotonic() > deadline:
            raise LabError('cannot make the namespaces', HOLDER_LOG)
        time.sleep(0.02)
    _HOLDER.write_text(json.dumps({'pid': kept.pid, 'started': kept.started}))
    return kept


def keep_private() -> None:
    """Put the lab's own files back over those that the machine has replaced.

    A mount on a file ends when somebody, in any mount namespace, renames
    another over it, as a package does that adds a group to /etc/group.

    :raises LabError: when it cannot be mounted.
    """
    for target, source in PRIVATE_FILES.items():
        if not source.exists() or source.samefile(target):
            continue
        done = subprocess.run(
            ['mount', '--bind', source, target],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LabError(f'{target} is not the lab\'s: {done.stderr}')


def enter_command(
    kept: process.Process, directory: str | pathlib.Path
) -> list[str]:
    """Return the command that runs its arguments in the namespaces.

    :param directory: where it runs; entering a mount namespace loses the
        working directory.
    """
    enter = ['nsenter', f'--target={kept.pid}', '--net', '--mount', '--uts']
    return [*enter, 'env', f'--chdir={directory}']


def run_module(
    kept: process.Process, module: str, arguments: Sequence[str]
) -> int:
    """Run a module of the checkout in the namespaces, as ``python -m`` does.

    An interrupt from the terminal reaches it directly, so it is left to
    answer; a request to end is handed on.

    :return: its exit code.
    """
    command = enter_command(kept, paths.CHECKOUT)
    command += [sys.executable, '-m', module, *arguments]
    sys.stdout.flush()
    child = subprocess.Popen(command)
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, end)


def members() -> list[process.Process]:
    """Return the processes that run in the lab's mount namespaces.

    Those of libvirt's container controllers are copies of the lab's and carry
    the same mark; the processes of a container do not.
    """
    found = []
    for pid in process.pids():
        member = process.identify(pid)
        if member and _has_mark(pid):
            found.append(member)
    return found


def another() -> str | None:
    """Return the work directory of another lab that is up."""
    for pid in process.pids():
        found = re.search(rf' - tmpfs {_MARK}(\S+) ', mounts(pid))
        if found and found[1] != str(paths.WORK):
            return found[1]
    return None


def mounts(pid: int) -> str:
    """Return the mounts that a process sees; nothing if it is gone."""
    try:
        return pathlib.Path(f'/proc/{pid}/mountinfo').read_text()
    except OSError as error:
        # Gone, a zombie or a kernel thread.
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.EINVAL):
            return ''
        raise


def _has_mark(pid: int) -> bool:
    return f' - tmpfs {MARK} ' in mounts(pid)
