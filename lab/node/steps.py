# SPDX-License-Identifier: Apache-2.0
"""Set-up of the nodes before they start: links, disks, the command of QEMU.

As in :mod:`lab.setup_steps`, each step may be run again at any time.
"""

from collections.abc import Callable, Mapping
import json
import pathlib
import time

from lab import config, node, service
from lab.console import LabError, say, tail
from lab.node import boot, image
from lab.setup_steps import run, vsctl

_SAY_S = 30

_RUN = """#!/bin/sh
# Written by the lab: the machine {host}.
exec qemu-system-x86_64 -name {host} {accelerator} \\
    -smp {cpus} -m {memory} -nodefaults -no-user-config -display none \\
    -rtc base=utc -serial stdio \\
    -kernel {kernel} {initrd} -append "console=ttyS0 root=/dev/vda rw \\
init=/sbin/node-init net.ifnames=0 panic=-1 loglevel=5 \\
systemd.show_status=error rcutree.use_softirq=0 {more}" \\
    -drive file={disk},if=none,id=disk,cache=unsafe,discard=unmap \\
    -device virtio-blk-pci,drive=disk \\
    -drive file={files},format=raw,if=none,id=files,read-only=on \\
    -device virtio-blk-pci,drive=files \\
    -netdev tap,id=control,ifname={control},script=no,downscript=no \\
    -device virtio-net-pci,netdev=control,mac={mac}:02,romfile= \\
    -netdev tap,id=external,ifname={external},script=no,downscript=no \\
    -device virtio-net-pci,netdev=external,mac={mac}:03,romfile= \\
    -device virtio-rng-pci
"""
_ACCELERATORS = {
    'kvm': '-accel kvm -cpu host',
    'tcg': '-accel tcg,thread=multi,tb-size=512 -cpu max',
}
#: A node's file with more arguments of its kernel, for tests.
MORE = 'append'


def links() -> None:
    """Make the nodes' links, and join them to the servers' network."""
    address = f'{node.SERVICES_ADDRESS}/32'
    run('node-links', ['ip', 'address', 'replace', address, 'dev', 'lo'])
    # Between nodes.
    run('node-links', ['sysctl', '-qw', 'net.ipv4.ip_forward=1'])
    for own in node.nodes():
        control, external = own.links
        for name in own.links:
            if not pathlib.Path('/sys/class/net', name).exists():
                make = ['ip', 'tuntap', 'add', 'dev', name, 'mode', 'tap']
                run('node-links', make)
            run('node-links', ['ip', 'link', 'set', name, 'up'])
        address = f'{own.gateway}/24'
        run(
            'node-links', ['ip', 'address', 'replace', address, 'dev', control]
        )
        vsctl('--may-exist', 'add-port', 'br-ex', external)


def disks() -> None:
    """Wait for kernel and disk, and give each node what it boots from.

    :raises LabError: when they could not be made.
    """
    _wait_for_image()
    _make_keys()
    config.put(node.SSH_CONFIG, node.ssh_config(node.nodes()))
    for own in node.nodes():
        own.file('').mkdir(parents=True, exist_ok=True)
        disk, made = own.file('disk.qcow2'), own.file('run')
        boot.write(own)
        if not disk.exists():
            found = json.loads(image.RESULT.read_text())
            create = ['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw']
            base = found['disks'][own.release]
            run('node-disks', [*create, '-b', base, disk])
        config.put(made, _script(own))


def _script(own: node.Node) -> str:
    found = json.loads(image.RESULT.read_text())
    control, external = own.links
    more = own.file(MORE)
    kernel, initrd = found['kernels'][own.kind]
    return _RUN.format(
        host=own.host,
        mac=f'52:54:00:68:{own.number:02x}',
        accelerator=_ACCELERATORS[found['accel']],
        cpus=node.CPUS,
        memory=node.MEMORY_MB,
        kernel=kernel,
        initrd=f'-initrd {initrd}' if initrd else '',
        disk=own.file('disk.qcow2'),
        files=own.file('files.tar'),
        control=control,
        external=external,
        more=more.read_text() if more.exists() else '',
    )


def _wait_for_image() -> None:
    said = time.monotonic()
    while image.running():
        if service.abandoned.wait(0.5):
            raise LabError('the nodes: not waited for', image.LOG)
        if time.monotonic() > said + _SAY_S:
            said = time.monotonic()
            say(f'node: {tail(image.LOG, 1).rpartition("] ")[2]}')
    if not image.RESULT.exists():
        raise LabError('kernel and disks of the nodes are missing', image.LOG)


def _make_keys() -> None:
    node.DIRECTORY.mkdir(parents=True, exist_ok=True)
    host_key = node.DIRECTORY / 'host_key'
    # The lab's to each node, and that of user nova from one node to another.
    for key in (node.DIRECTORY / 'key', node.DIRECTORY / 'nova_key'):
        if not key.exists():
            make = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'lab']
            run('node-disks', [*make, '-f', key])
    if not host_key.exists():
        run('node-disks', ['dropbearkey', '-t', 'ed25519', '-f', host_key])


STEPS: Mapping[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    'node-links': (links, ('bridges',)),
    'node-disks': (disks, ()),
}
