# SPDX-License-Identifier: Apache-2.0
"""The services of the second compute's machine: those of a compute host.

Each is the first machine's with another name, except that the second has no
services of the cloud, and reaches those through a relay. It has a whole switch
of its own: two ovn-controllers on one have no stateful ACLs, and without those
there are no security groups (ovn-controller(8) of OVN 23.03).
"""

from collections.abc import Callable, Mapping
import dataclasses
import pathlib

from lab import answers, namespace, paths, second
from lab.console import LabError
from lab.service import Service, Words, program

SSH = paths.ETC / 'ssh'
#: The switch's database.
SWITCH = second.VAR / 'ovs' / 'conf.db'
_FIRST_SWITCH = paths.VAR / 'ovs' / 'conf.db'
#: Ports of the services that a compute asks: RabbitMQ and the APIs.
PORTS = ('5672', '5000', '8778', '9292', '9696', '8774')
_EXPORTER_PORT = 9839
# Names of the first machine's services that the second has as well.
_SAME = (
    'libvirtd',
    'ovsdb',
    'ovs-vswitchd',
    'taps',
    'ovn-controller',
    'nova-compute',
    'nova-rt-exporter',
)
# What they need that is not a service or step of the first machine.
_STEPS = ('ovs-databases', 'switch-settings', 'bridges')


def name(first: str) -> str:
    """Return the name of a service or step on the second machine."""
    return f'{first}-2'


def beside(first: Mapping[str, Service]) -> dict[str, Service]:
    """Return the services that a second compute adds.

    :param first: those of the first machine, by name
    """
    found = [
        # By its name, the first machine finds itself at its loopback.
        _sshd('sshd', second.ADDRESSES[0], '127.0.0.1'),
        dataclasses.replace(
            _sshd(name('sshd'), second.ADDRESSES[1]), on_second=True
        ),
        _relay(),
        *(_again(first[each]) for each in _SAME),
    ]
    return {service.name: service for service in found}


def _again(first: Service) -> Service:
    """The same on the second machine, where it sees its own files."""
    needs = {
        name(need) if need in (*_SAME, *_STEPS) else need
        for need in first.needs
    }
    if first.name == 'nova-compute':
        needs |= {name('relay'), name('sshd'), 'sshd', 'neutron', 'glance'}
    return dataclasses.replace(
        first,
        name=name(first.name),
        command=tuple(
            SWITCH if word == _FIRST_SWITCH else word for word in first.command
        ),
        needs=tuple(sorted(needs)),
        ready=_READY.get(first.name),
        files=tuple(map(_place, first.files)),
        on_second=True,
    )


def _place(file: pathlib.Path) -> pathlib.Path:
    """Return the lab's path of a file, the second's own one if it has one."""
    for own in ('nova', 'libvirt'):
        if file.is_relative_to(paths.ETC / own):
            return second.ETC / file.relative_to(paths.ETC)
    return file


def _inside(*command: str) -> Callable[[], bool]:
    """A command succeeds on the second machine."""

    def answering() -> bool:
        try:
            words = second.enter(command)
        except LabError:
            return False
        return answers.to(*map(str, words))()

    return answering


_READY: dict[str, Callable[[], bool]] = {
    'libvirtd': _inside('virsh', '-c', 'lxc:///', 'list'),
    'ovsdb': _inside('ovsdb-client', '--timeout=5', 'list-dbs'),
    'ovs-vswitchd': _inside(
        'ovs-appctl',
        '--timeout=5',
        '--target=/run/openvswitch/ovs-vswitchd.ctl',
        'version',
    ),
    'nova-rt-exporter': answers.by_http(_EXPORTER_PORT, second.ADDRESSES[1]),
}


def _sshd(own: str, address: str, *more: str) -> Service:
    """For the files that Nova copies between computes, and for tests.

    Dropbear, because a package of its program alone starts nothing.
    """
    command: Words = (
        'dropbear',
        *('-F', '-E', '-s', '-j', '-k', '-m'),
        *('-r', SSH / 'host_key'),
        *(word for each in (address, *more) for word in ('-p', f'{each}:22')),
        *('-P', '/run/dropbear.pid'),
    )
    return Service(
        own,
        command,
        needs=('ssh-keys',),
        ready=answers.at_port(22, address),
    )


def _relay() -> Service:
    parent = namespace.holder()
    pid = parent.pid if parent else 0
    return Service(
        name('relay'),
        program('relay.py', f'/proc/{pid}/ns/net', '127.0.0.1', *PORTS),
        on_second=True,
        ready=_inside('bash', '-c', 'exec 3<>/dev/tcp/127.0.0.1/5672'),
    )


def possible(table: Mapping[str, Service]) -> dict[str, Service]:
    """Return those of some services that a dead machine does not prevent.

    With the machine, the address is gone at which the first one is reached.
    """
    alive = second.holder() is not None
    return {
        own: service
        for own, service in table.items()
        if alive or not (service.on_second or own == 'sshd')
    }
