# SPDX-License-Identifier: Apache-2.0
"""The files that a node gets over its root at each boot.

nova_rt as it is installed here, the files that the project ships for
operators, word for word and at their places, and the lab's configuration.
"""

import io
import json
import os
import pathlib
import string
import sysconfig
import tarfile

from lab import accounts, config, node, paths
from lab.node import image
from lab.node.services import OVN_PORT
from lab.second_services import PORTS

_FILES = paths.CHECKOUT / 'lab' / 'node' / 'files'
_SHIPPED = paths.CHECKOUT / 'etc' / 'nova_rt'
_UNITS = 'etc/systemd/system'
# Programs at the places that units and sudoers name.
_PROGRAMS = ('nova-rt-*', 'privsep-helper', 'nova-manage')
_ENABLED = ('node-network', 'dropbear', 'nova-compute', 'nova-rt-exporter')

_COMPUTE = """
# What a node has of its own.
[DEFAULT]
my_ip = {address}
reserved_host_memory_mb = 512
rpc_response_timeout = 300
resume_guests_state_on_host_boot = {resume}
[nova_rt]
partition = machine.slice
"""

# The keys of all nodes are those of this lab.
_SSH_CONFIG = """Host *
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


def write(own: node.Node) -> None:
    """Write the tar of a node's files; one that is right is not touched."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w') as tar:
        _add_files(tar, own)
    file = own.file('files.tar')
    if not file.exists() or file.read_bytes() != data.getvalue():
        file.write_bytes(data.getvalue())


def _add_files(tar: tarfile.TarFile, own: node.Node) -> None:
    values = config.values() | {'host': own.host, 'var': '/var/lib'}

    def template(name: str) -> str:
        text = (paths.TEMPLATES / name).read_text()
        return string.Template(text).substitute(values)

    nova = accounts.ID
    compute = template('nova-compute.conf')
    compute += _COMPUTE.format(
        address=own.address,
        # For bench/boot.py.
        resume=os.environ.get('NOVA_RT_LAB_RESUME', 'true'),
    )
    _put(tar, 'etc/nova/nova.conf', template('nova.conf'), 0o640, nova)
    _put(tar, 'etc/nova/nova-compute.conf', compute, 0o640, nova)
    exporter = template(config.EXPORTER)
    exporter += f'listen_address = {own.address}\n'
    _put(tar, 'etc/nova-rt/exporter.conf', exporter)
    _put(tar, 'etc/libvirt/libvirtd.conf', template('libvirtd.conf'), 0o600)
    _put(tar, 'etc/hostname', f'{own.host}\n')
    hosts = f'127.0.0.1 localhost\n127.0.1.1 {own.host}\n'
    _put(tar, 'etc/hosts', hosts)
    places = {
        'NODE': own.host,
        'ADDRESS': own.address,
        'GATEWAY': own.gateway,
        'SERVICES': node.SERVICES_ADDRESS,
        'OVN_PORT': str(OVN_PORT),
        'PORTS': f'"{", ".join(PORTS)}"',
    }
    lines = (f'{name}={value}\n' for name, value in places.items())
    _put(tar, 'etc/node.conf', ''.join(lines))
    _put(
        tar,
        'etc/sudoers.d/nova-rt',
        (_SHIPPED / 'sudoers.d' / 'nova-rt').read_text(),
        0o440,
    )
    _add_units(tar)
    if own.kind == 'stock':
        _add_scheduler(tar)
    key = (node.DIRECTORY / 'key.pub').read_text()
    _put(tar, 'root/.ssh/authorized_keys', key, 0o600)
    host_key = (node.DIRECTORY / 'host_key').read_bytes()
    _put(tar, 'etc/dropbear/host_key', host_key, 0o600)
    script = (_FILES / 'node-network').read_text()
    _put(tar, 'usr/local/sbin/node-network', script, 0o755)
    _add_keys(tar)
    _add_programs(tar, node.RELEASES[own.release])


def _add_units(tar: tarfile.TarFile) -> None:
    drop_in = 'nova-compute.service.d/nova-rt.conf'
    for name, file in (
        # As Debian's; the rest is what the project ships.
        ('nova-compute.service', paths.TEMPLATES / 'nova-compute.service'),
        (drop_in, _SHIPPED / 'systemd' / drop_in),
        (
            'nova-rt-exporter.service',
            _SHIPPED / 'systemd' / 'nova-rt-exporter.service',
        ),
        ('node-network.service', _FILES / 'node-network.service'),
        ('dropbear.service', _FILES / 'dropbear.service'),
    ):
        _put(tar, f'{_UNITS}/{name}', file.read_text())
    for name in _ENABLED:
        wants = f'{_UNITS}/multi-user.target.wants/{name}.service'
        _link(tar, wants, f'/{_UNITS}/{name}.service')
    # The console is a log.
    _link(tar, f'{_UNITS}/serial-getty@ttyS0.service', '/dev/null')


def _add_scheduler(tar: tarfile.TarFile) -> None:
    """Add nova-rt-sched, as its package has it."""
    kernel, _ = json.loads(image.RESULT.read_text())['kernels']['stock']
    made, name = pathlib.Path(kernel).parent, 'nova-rt-sched'
    _put(tar, f'usr/sbin/{name}', (made / name).read_bytes(), 0o755)
    unit = f'{_UNITS}/{name}.service'
    _put(tar, unit, (made / f'{name}.service').read_text())
    wants = f'{_UNITS}/multi-user.target.wants/{name}.service'
    _link(tar, wants, f'/{unit}')


def _add_keys(tar: tarfile.TarFile) -> None:
    """Let user nova of each node copy disks to the others."""
    key, nova = node.DIRECTORY / 'nova_key', accounts.ID
    for name, text in (
        ('id_ed25519', key.read_text()),
        ('authorized_keys', key.with_suffix('.pub').read_text()),
        ('config', _SSH_CONFIG),
    ):
        _put(tar, f'var/lib/nova/.ssh/{name}', text, 0o600, nova, nova)


def _add_programs(tar: tarfile.TarFile, python: str) -> None:
    """Add nova_rt.

    :param python: the name of the Python that the node has
    """
    ours = pathlib.Path(sysconfig.get_path('purelib'))
    theirs = paths.VENV / 'lib' / python / 'site-packages'
    for path in sorted(ours.glob('nova_rt*')):
        name = str(theirs / path.name).lstrip('/')
        tar.add(path, name, filter=_needed)
    for path in sorted(paths.VENV.glob('bin/nova-rt-*')):
        tar.add(path, str(path).lstrip('/'))
    for pattern in _PROGRAMS:
        for path in sorted(paths.VENV.glob(f'bin/{pattern}')):
            _link(tar, f'usr/bin/{path.name}', str(path))


def _needed(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    tests = '/nova_rt/tests' in info.name
    return None if tests else info


def _put(
    tar: tarfile.TarFile,
    name: str,
    content: str | bytes,
    mode: int = 0o644,
    group: int = 0,
    user: int = 0,
) -> None:
    data = content.encode() if isinstance(content, str) else content
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.gid, info.uid = len(data), mode, group, user
    tar.addfile(info, io.BytesIO(data))


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)
