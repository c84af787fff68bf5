# SPDX-License-Identifier: Apache-2.0
"""Set-up of the second compute's machine between its services.

As in :mod:`lab.setup_steps`, each step may be run again at any time.
"""

from collections.abc import Callable
import os
import pathlib

from lab import accounts, config, second, setup_steps
from lab.second_services import SSH, SWITCH, name
from lab.setup_steps import run, vsctl

_SSH_CONFIG = """Host *
IdentityFile {key}
UserKnownHostsFile {known}
StrictHostKeyChecking yes
"""


def ssh_keys() -> None:
    """Allow only user nova and the operator to log in to either machine."""
    SSH.mkdir(mode=0o700, parents=True, exist_ok=True)
    host_key = SSH / 'host_key'
    if not host_key.exists():
        # dropbear has a format of its own.
        made = SSH / 'host_key.openssh'
        _make_key(made)
        convert: list[str | pathlib.Path]
        convert = ['dropbearconvert', 'openssh', 'dropbear', made, host_key]
        run('ssh-keys', convert)
    for user, number, home, seen in (
        (accounts.USER, accounts.ID, accounts.HOME, accounts.HOME),
        # What the second machine has at this place.
        (accounts.USER, accounts.ID, second.VAR / 'nova', accounts.HOME),
        (
            accounts.OPERATOR,
            0,
            accounts.OPERATOR_HOME,
            accounts.OPERATOR_HOME,
        ),
    ):
        _write_keys(user, number, home, seen)


def _write_keys(
    user: str, number: int, home: pathlib.Path, seen: pathlib.Path
) -> None:
    """Give a user a key that opens its account on both machines.

    :param seen: where the user sees its home
    """
    key = SSH / user
    if not key.exists():
        _make_key(key)
    host_key = (SSH / 'host_key.openssh.pub').read_text()
    directory = home / '.ssh'
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {
        'id_ed25519': key.read_text(),
        'authorized_keys': key.with_suffix('.pub').read_text(),
        'known_hosts': f'{",".join(second.ADDRESSES)} {host_key}',
        'config': _SSH_CONFIG.format(
            key=seen / '.ssh' / 'id_ed25519',
            known=seen / '.ssh' / 'known_hosts',
        ),
    }
    for file, text in files.items():
        config.put(directory / file, text, 0o600)
    for owned in (directory, *directory.iterdir()):
        os.chown(owned, number, number)


def _make_key(file: pathlib.Path) -> None:
    options = ['-q', '-t', 'ed25519', '-N', '', '-C', 'nova-rt-lab']
    run('ssh-keys', ['ssh-keygen', *options, '-f', file])


def switch_database() -> None:
    """Make the empty database of the switch."""
    SWITCH.parent.mkdir(parents=True, exist_ok=True)
    setup_steps.make_database(SWITCH, setup_steps.SWITCH_SCHEMA)


def switch_settings() -> None:
    """Set the identity of the switch; gateways are on the first machine."""
    settings = setup_steps.settings_of(second.HOST, second.ADDRESSES[1])
    del settings['external-ids:ovn-cms-options']
    setup_steps.set_switch(settings, _vsctl)


def bridges() -> None:
    """Make the bridges, and join the networks of the two machines.

    The devices are new each time that the machine was started. The switch goes
    on listening to the old one if its port goes and comes in one step.
    """
    setup_steps.make_bridges(_vsctl)
    for port, configure in (
        ('bridges', _vsctl),
        (second.BRIDGES_LINK, vsctl),
    ):
        configure('--if-exists', 'del-port', 'br-ex', port)
        configure('add-port', 'br-ex', port)


def _vsctl(*arguments: str) -> None:
    run('ovs-setup', second.enter([*setup_steps.VSCTL, *arguments]))


STEPS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    'ssh-keys': (ssh_keys, ()),
    name('ovs-databases'): (switch_database, ()),
    name('switch-settings'): (switch_settings, (name('ovsdb'),)),
    name('bridges'): (bridges, (name('ovs-vswitchd'), 'bridges')),
}
