# SPDX-License-Identifier: Apache-2.0
"""Makes the machine of the second compute, and lets it die.

:mod:`lab.second` describes it. Everything here runs inside the lab's
namespaces.
"""

from collections.abc import Iterator
import json
import os
import pathlib
import signal
import subprocess
import time

from lab import leftovers, namespace, paths, process, second
from lab.console import LabError, say

_LOG_FILE = paths.LOG / 'machine-2.log'
_PERIOD_US = 1_000_000
_GONE_S = 20

# What the first machine has at these places, the second has of its own.
_PRIVATE = {
    paths.ETC / 'nova': second.ETC / 'nova',
    paths.VAR / 'nova': second.VAR / 'nova',
    paths.LOG / 'nova': second.LOG / 'nova',
    pathlib.Path('/etc/libvirt'): second.ETC / 'libvirt',
    pathlib.Path('/var/lib/libvirt'): second.VAR / 'libvirt' / 'lib',
    pathlib.Path('/var/cache/libvirt'): second.VAR / 'libvirt' / 'cache',
    pathlib.Path('/var/log/libvirt'): second.LOG / 'libvirt',
}

# The control groups are mounted anew: these mounts show this machine's group
# as their root. Those of the first have to go, libvirt would find them.
_SETUP = """
hostname {host}
ip link set lo up
ip link add hosts type veth peer name {hosts_link} netns {parent}
ip link add bridges type veth peer name {bridges_link} netns {parent}
ip addr add {address}/24 dev hosts
ip link set hosts up
ip link set bridges up
while mountpoint -q /sys; do umount -R /sys; done
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
while IFS=: read -r number names group; do
    case $names in
    '' | name=*) continue ;;
    esac
    mkdir /sys/fs/cgroup/$names
    mount -t cgroup -o $names cgroup /sys/fs/cgroup/$names
    for name in $(echo $names | tr , ' '); do
        [ -e /sys/fs/cgroup/$name ] || ln -s $names /sys/fs/cgroup/$name
    done
done </proc/self/cgroup
mount -t tmpfs -o mode=755 {mark} /run
mkdir /run/lock /run/openvswitch /run/ovn
{binds}
touch /run/ready
exec sleep infinity
"""


def ensure() -> None:
    """Start the machine, unless it runs: its namespaces, no service yet.

    :raises LabError: when this machine does not allow it.
    """
    if second.holder():
        _keep_private()
        return
    parent = namespace.holder()
    assert parent is not None  # this runs in its namespaces
    # What is left of one whose holder has ended.
    kill()
    _make_groups()
    for source in _PRIVATE.values():
        source.mkdir(parents=True, exist_ok=True)
    # What the kernel says of a loop device is a path: that of a disk here has
    # to differ from that of a disk of the first machine.
    second.INSTANCES.mkdir(exist_ok=True)
    link = second.VAR / 'nova' / 'instances'
    if not link.is_symlink():
        link.symlink_to(second.INSTANCES)
    hosts = second.ETC / 'hosts'
    hosts.write_text(
        _hosts(second.HOST, namespace.HOST_NAME, second.ADDRESSES[0])
    )
    # The file is bound to its place in the first machine: the same file.
    namespace.PRIVATE_FILES['/etc/hosts'].write_text(
        _hosts(namespace.HOST_NAME, second.HOST, second.ADDRESSES[1])
    )
    binds = [f'mount --bind {hosts} /etc/hosts']
    for target, source in _PRIVATE.items():
        if target.is_relative_to(paths.WORK):
            target.mkdir(parents=True, exist_ok=True)
        binds.append(f'[ ! -d {target} ] || mount --bind {source} {target}')
    script = _SETUP.format(
        host=second.HOST,
        parent=parent.pid,
        hosts_link=second.HOSTS_LINK,
        bridges_link=second.BRIDGES_LINK,
        address=second.ADDRESSES[1],
        mark=second.MARK,
        binds='\n'.join(binds),
    )
    command = ['unshare', *second.NAMESPACES, '--propagation', 'private']
    command += ['--', 'sh', '-eu', '-c', script]
    kept = process.start(
        second.joined(command), _LOG_FILE, {'PATH': _path()}, paths.VAR
    )
    ready = pathlib.Path(f'/proc/{kept.pid}/root/run/ready')
    deadline = time.monotonic() + _GONE_S
    while not (
        f' {second.MARK} ' in namespace.mounts(kept.pid) and ready.exists()
    ):
        if not kept.alive() or time.monotonic() > deadline:
            raise LabError(f'cannot make the machine {second.HOST}', _LOG_FILE)
        time.sleep(0.02)
    second.HOLDER.write_text(
        json.dumps({'pid': kept.pid, 'started': kept.started})
    )
    _ip(
        'addr',
        'replace',
        f'{second.ADDRESSES[0]}/24',
        'dev',
        second.HOSTS_LINK,
    )
    _ip('link', 'set', second.HOSTS_LINK, 'up')
    _ip('link', 'set', second.BRIDGES_LINK, 'up')
    say(f'machine {second.HOST} is up, kept by process {kept.pid}')


def _keep_private() -> None:
    """Keep its files private, as :func:`lab.namespace.keep_private`."""
    files = namespace.PRIVATE_FILES | {'/etc/hosts': second.ETC / 'hosts'}
    for target, source in files.items():
        if not source.samefile(second.path(target)):
            bind: list[str | pathlib.Path]
            bind = ['mount', '--bind', source, target]
            subprocess.run(second.enter(bind), check=True)


def _hosts(own: str, other: str, address: str) -> str:
    return f'127.0.0.1 localhost {own}\n{address} {other}\n'


def _path() -> str:
    return f'{os.defpath}:/usr/sbin:/sbin'


def _ip(*words: str) -> None:
    subprocess.run(['ip', *words], check=True, env={'PATH': _path()})


def _unlink() -> None:
    # The kernel removes the links of a dead machine, a little later.
    for link in (second.HOSTS_LINK, second.BRIDGES_LINK):
        subprocess.run(
            ['ip', 'link', 'delete', link],
            capture_output=True,
            check=False,
            env={'PATH': _path()},
        )


# Its control group


def _make_groups() -> None:
    for top in hierarchies():
        group = top / second.HOST
        group.mkdir(exist_ok=True)
        # A group of cpusets without CPUs and memory takes no process.
        for name in ('cpuset.cpus', 'cpuset.mems'):
            if (group / name).exists() and not _read(group / name):
                (group / name).write_text(_read(top / name))
        if (group / 'cpu.rt_runtime_us').exists():
            _share_budget(top, group)


def hierarchies() -> list[pathlib.Path]:
    """Return the hierarchies of cgroup v1 that have a controller."""
    lines = pathlib.Path('/proc/self/cgroup').read_text().splitlines()
    names = [line.split(':')[1] for line in lines]
    found = (
        leftovers.CGROUPS / name for name in names if name and '=' not in name
    )
    return [top for top in found if top.is_dir()]


def half_us(runtime_us: int, period_us: int, limit_ppm: int) -> int:
    """Return the half of a root group's bandwidth, in us of a second.

    :param limit_ppm: the kernel's limit for real-time tasks on a CPU
    """
    whole_ppm = min(limit_ppm, runtime_us * _PERIOD_US // period_us)
    return whole_ppm // 2


def _share_budget(top: pathlib.Path, group: pathlib.Path) -> None:
    # Before the first compute takes all that there is.
    sysctl = pathlib.Path('/proc/sys/kernel')
    runtime, period = (
        int(_read(sysctl / f'sched_rt_{name}_us'))
        for name in ('runtime', 'period')
    )
    wanted_us = half_us(
        int(_read(top / 'cpu.rt_runtime_us')),
        int(_read(top / 'cpu.rt_period_us')),
        runtime * _PERIOD_US // period,
    )
    if int(_read(group / 'cpu.rt_runtime_us')) == wanted_us:
        return
    try:
        (group / 'cpu.rt_period_us').write_text(str(_PERIOD_US))
        (group / 'cpu.rt_runtime_us').write_text(str(wanted_us))
    except OSError as error:
        raise LabError(
            f'the kernel does not give {group} {wanted_us} of {_PERIOD_US} '
            f'us: {error.strerror}; another group in {top} has taken it'
        ) from error


def _groups() -> Iterator[pathlib.Path]:
    # Every group of the machine, in all hierarchies, the innermost first.
    for top in hierarchies():
        for directory, _, _ in os.walk(top / second.HOST, topdown=False):
            yield pathlib.Path(directory)


def processes() -> list[process.Process]:
    """Return all that runs on the machine, its containers included."""
    pids: set[int] = set()
    for group in _groups():
        try:
            pids.update(map(int, _read(group / 'cgroup.procs').split()))
        except OSError:
            continue  # removed meanwhile
    found = map(process.identify, sorted(pids))
    return [each for each in found if each]


def kill() -> None:
    """Kill the machine, as a power cut does: everything at one moment.

    Its disk stays, and its share of the kernel's bandwidth: another machine
    gets nothing because this one is dead.

    :raises LabError: when something of it lives on.
    """
    _freeze('FROZEN')
    try:
        for each in processes():
            each.kill(signal.SIGKILL)
    finally:
        _freeze('THAWED')
    deadline = time.monotonic() + _GONE_S
    while left := processes():
        if time.monotonic() > deadline:
            pids = ', '.join(str(each.pid) for each in left)
            raise LabError(
                f'processes of {second.HOST} cannot be killed: {pids}'
            )
        for each in left:
            each.kill(signal.SIGKILL)
        time.sleep(0.05)
    # Its mounts have ended with it, which hold the loop devices.
    while not _forget():
        if time.monotonic() > deadline:
            raise LabError(
                f'groups or loop devices of {second.HOST} are in use still: '
                'see "python -m lab leftovers"'
            )
        time.sleep(0.1)
    _unlink()
    second.HOLDER.unlink(missing_ok=True)


def _freeze(state: str) -> None:
    file = leftovers.CGROUPS / 'freezer' / second.HOST / 'freezer.state'
    if file.exists():
        file.write_text(state)


def _forget() -> bool:
    """Drop the things that end at a boot: loop devices, containers.

    Not at once: the kernel ends namespaces, and zombies, a little later.

    :return: whether all of it is gone.
    """
    for device in leftovers.second_disks():
        subprocess.run(
            ['losetup', '--detach', device], capture_output=True, check=False
        )
    for group in _groups():
        if group.name != second.HOST:
            try:
                group.rmdir()
            except OSError:
                return False
    return not leftovers.second_disks()


def _read(file: pathlib.Path) -> str:
    return file.read_text().strip()
