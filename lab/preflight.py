# SPDX-License-Identifier: Apache-2.0
"""Requirements on the machine, checked before the lab does any work."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

from lab import leftovers, namespace, paths, second
from lab.console import LabError

MEMORY_KB = 3 * 1024 * 1024
DISK_KB = 4 * 1024 * 1024
#: What a node takes, and what is kept of any: the disk and its layers.
NODE_MEMORY_KB = 2 * 1024 * 1024 + 512 * 1024
NODE_DISK_KB = 4 * 1024 * 1024

# Program and the Debian package that has it.
_PROGRAMS = {
    'ip': 'iproute2',
    'unshare': 'util-linux',
    'nsenter': 'util-linux',
    'losetup': 'mount',
    'setpriv': 'util-linux',
    'prlimit': 'util-linux',
    'sudo': 'sudo',
    'mkfs.ext4': 'e2fsprogs',
    'mariadbd': 'mariadb-server',
    'mariadb-install-db': 'mariadb-server',
    'rabbitmq-server': 'rabbitmq-server',
    'memcached': 'memcached',
    'ovsdb-server': 'openvswitch-switch',
    'ovs-vswitchd': 'openvswitch-switch',
    'ovn-northd': 'ovn-central',
    'ovn-controller': 'ovn-host',
    'libvirtd': 'libvirt-daemon',
    'qemu-img': 'qemu-utils',
    'virsh': 'libvirt-clients',
}
# The same for two computes: Nova copies disks from one to the other.
_SECOND_PROGRAMS = {
    'dropbear': 'dropbear-bin',
    'ssh': 'openssh-client',
    'scp': 'openssh-client',
    '/usr/lib/sftp-server': 'openssh-sftp-server',
}
# The same for nodes: QEMU, and what their kernel and disk are made with.
_NODE_PROGRAMS = {
    'qemu-system-x86_64': 'qemu-system-x86',
    'mmdebstrap': 'mmdebstrap',
    'ssh': 'openssh-client',
    'dropbearkey': 'dropbear-bin',
    'gcc': 'gcc',
    'make': 'make',
    'flex': 'flex',
    'bison': 'bison',
    'bc': 'bc',
}
_LXC_DRIVER = '/usr/lib/*/libvirt/connection-driver/libvirt_driver_lxc.so'


def require_root() -> None:
    """Refuse a user without the right to make namespaces and cgroups."""
    if os.geteuid() != 0:
        raise LabError('only root can do this; run it as root or with sudo')


def check(computes: int, nodes: int) -> None:
    """Refuse a machine that cannot run the lab, with the reason.

    :param computes: on the machine's own kernel
    :param nodes: in virtual machines
    :raises LabError: with all that is missing, and remedies.
    """
    if not re.fullmatch(r'/[\w./+-]+', str(paths.WORK)):
        raise LabError(
            f'NOVA_RT_LAB={paths.WORK}: must be an absolute path of letters, '
            'digits and . _ + -'
        )
    if str(paths.WORK.resolve()).startswith(('/run/', '/sys/', '/proc/')):
        raise LabError(f'NOVA_RT_LAB={paths.WORK}: not a place for files')
    _check_ways()
    _check_alone()
    _check_software()
    _check_resources(nodes)
    if nodes:
        _check_node_software()
    if computes:
        _check_kernel()
    if computes == 2:
        _check_second()


def has_interface() -> bool:
    """Return whether this machine's kernel has files of reservations."""
    bootstrap = paths.CHECKOUT / 'tools' / 'bootstrap.sh'
    found = subprocess.run(
        [bootstrap, 'kernel'], capture_output=True, check=False
    )
    return found.returncode == 0


def is_this_installed() -> bool:
    """Return whether the lab's environment has nova_rt of this checkout."""
    bootstrap = paths.CHECKOUT / 'tools' / 'bootstrap.sh'
    found = subprocess.run(
        [bootstrap, 'installed'], capture_output=True, check=False
    )
    return found.returncode == 0


def _check_node_software() -> None:
    missing = _missing(_NODE_PROGRAMS)
    if missing:
        raise LabError(
            'a node is built and run with Debian packages that are missing: '
            f'{" ".join(sorted(missing))}; "make -C kernel packages" installs '
            'them'
        )


def _check_second() -> None:
    """Refuse a machine that cannot be two compute hosts.

    :raises LabError: with the missing parts.
    """
    missing = _missing(_SECOND_PROGRAMS)
    if missing:
        raise _without(missing)
    if not all(second.cpu_sets(second.online())):
        raise LabError('two computes need a CPU each; this machine has one')
    if not (leftovers.CGROUPS / 'cpu' / 'cpu.rt_runtime_us').exists():
        raise LabError(
            'two computes share the bandwidth of cgroup v1; this machine has '
            'its cpu controller on cgroup v2'
        )


def _check_ways() -> None:
    # Of the work directory, what is there.
    for directory in (paths.WORK, *paths.WORK.parents):
        if directory.exists() and not directory.stat().st_mode & 0o001:
            raise LabError(
                f'NOVA_RT_LAB={paths.WORK}: nova-compute runs as user nova, '
                f'who cannot enter {directory}'
            )


def _check_alone() -> None:
    other = namespace.another()
    if other:
        raise LabError(
            f'NOVA_RT_LAB={other}: another lab is up, and containers of both '
            'would share one control group; take it down first'
        )


def _check_software() -> None:
    wanted = _missing(_PROGRAMS)
    if not list(pathlib.Path('/').glob(_LXC_DRIVER[1:])):
        wanted.add('libvirt-daemon-driver-lxc')
    if wanted:
        raise _without(wanted)
    modules = ('nova', 'keystone', 'glance', 'placement', 'neutron')
    missing = [m for m in modules if not importlib.util.find_spec(m)]
    if not (paths.VENV / 'bin' / 'nova-rt-compute').exists():
        missing.append('nova_rt (its programs)')
    if missing:
        raise LabError(
            f'not installed in {paths.VENV}: {", ".join(missing)}; "make '
            'venv" installs them'
        )


def _missing(programs: dict[str, str]) -> set[str]:
    return {
        package
        for program, package in programs.items()
        if not shutil.which(program, path=f'{os.defpath}:/usr/sbin:/sbin')
    }


def _without(packages: set[str]) -> LabError:
    return LabError(
        'Debian packages are missing: '
        + ' '.join(sorted(packages))
        + '; "make venv" installs them'
    )


def _check_resources(nodes: int) -> None:
    memory_kb = MEMORY_KB + nodes * NODE_MEMORY_KB
    disk_kb = DISK_KB + (NODE_DISK_KB if nodes else 0)
    text = pathlib.Path('/proc/meminfo').read_text()
    match = re.search(r'^MemAvailable:\s+(\d+)', text, re.M)
    assert match is not None  # every kernel since 3.14 says it
    if int(match[1]) < memory_kb:
        raise LabError(
            f'{int(match[1])} KiB of memory are available, the lab needs '
            f'{memory_kb}'
        )
    paths.WORK.mkdir(parents=True, exist_ok=True)
    free_kb = shutil.disk_usage(paths.WORK).free // 1024
    if free_kb < disk_kb:
        raise LabError(
            f'{free_kb} KiB are free under {paths.WORK}, the lab needs '
            f'{disk_kb}'
        )
    for device in ('/dev/net/tun', '/dev/loop-control'):
        if not os.path.exists(device):
            raise LabError(
                f'{device} is missing; load the kernel module '
                f'"{device.split("/")[2].split("-")[0]}" (tun or loop)'
            )


def _check_kernel() -> None:
    # The product's own probe decides; it says what was found and what helps.
    probe = subprocess.run(
        [paths.VENV / 'bin' / 'nova-rt-status', 'host', 'check'],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode:
        raise LabError(
            'this machine cannot hold reservations, "up --node hcbs" makes '
            'one that can; "nova-rt-status host check" says:\n'
            f'{(probe.stdout or probe.stderr).rstrip()}'
        )
