# SPDX-License-Identifier: Apache-2.0
"""User nova, as whom nova-compute runs: account, rights by sudo, files.

The machine's own accounts and sudoers stay as they are: the lab's mount
namespace has files of its own in their place.
"""

import os
import pathlib
import re

from lab import namespace, paths, second
from lab.config import put
from lab.console import LabError
from lab.unit import Unit

USER = 'nova'
HOME = paths.VAR / 'nova'
#: Account that looks at both of two compute hosts over SSH: root, by another
#: name and with another home.
OPERATOR = 'lab-root'
OPERATOR_HOME = paths.VAR / OPERATOR
RULES = paths.CHECKOUT / 'etc' / 'nova_rt' / 'sudoers.d' / 'nova-rt'
STOCK = 'nova-compute-stock.conf'
_BIN = f'{paths.VENV}/bin/'
# Debian reserves the first for Nova; the other is for a machine without group
# libvirt.
ID = 64060
_LIBVIRT_ID = 64069

# Debian's, without the machine's own rules. Its secure_path is where sudo
# looks for privsep-helper.
_SUDOERS = """# Written by the lab.
Defaults env_reset
Defaults mail_badpass
Defaults use_pty
Defaults secure_path="{venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL

{rules}
# The same for Nova's own nova-compute, whose second file is another.
{stock_rules}"""


def write() -> None:
    """Write the files that :mod:`lab.namespace` puts in the place of others.

    :raises LabError: when the machine has given Nova's ids to somebody else.
    """
    files = namespace.PRIVATE_FILES
    passwd = ''.join(
        line
        for line in pathlib.Path('/etc/passwd').read_text().splitlines(True)
        if not line.startswith(f'{OPERATOR}:')
    )
    group = pathlib.Path('/etc/group').read_text()
    passwd = with_user(passwd)
    if second.wanted():
        passwd += f'{OPERATOR}:*:0:0::{OPERATOR_HOME}:/bin/sh\n'
    put(files['/etc/passwd'], passwd)
    put(files['/etc/group'], with_groups(group))
    put(files['/etc/sudoers'], sudoers(RULES.read_text()), 0o440)


def own(unit: Unit) -> None:
    """Give user nova its files, as packages and systemd do.

    Its configuration stays root's: it bounds the privileged helpers.
    """
    _own(unit, HOME, paths.LOG / 'nova', paths.ETC / 'nova', '/run')
    if second.holder():
        _own(
            unit,
            second.VAR / 'nova',
            second.LOG / 'nova',
            second.ETC / 'nova',
            second.path('/run'),
        )


def _own(
    unit: Unit,
    home: pathlib.Path,
    logs: pathlib.Path,
    etc: pathlib.Path,
    run: str | pathlib.Path,
) -> None:
    runtime = [pathlib.Path(run) / name for name in unit.runtime]
    for directory in (home, home / 'instances', logs, *runtime):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.chown(directory, ID, ID)
    for name in ('nova.conf', 'nova-compute.conf', STOCK):
        os.chown(etc / name, 0, ID)


def with_user(passwd: str) -> str:
    """Return a text of /etc/passwd with user nova, as Debian makes it.

    :raises LabError: when somebody else has its id.
    """
    # Without a password, and so without a line in /etc/shadow.
    line = f'{USER}:*:{ID}:{ID}::{HOME}:/bin/sh'
    return '\n'.join([*_others(passwd, {USER: ID}), line, ''])


def with_groups(group: str) -> str:
    """Return a text of /etc/group with group nova, and nova in libvirt's.

    :raises LabError: when another group has one of their ids.
    """
    libvirt = next(
        (line for line in group.splitlines() if line.startswith('libvirt:')),
        f'libvirt:x:{_LIBVIRT_ID}:',
    )
    fields = libvirt.split(':')
    members = {*filter(None, fields[3].split(',')), USER}
    lines = [
        *_others(group, {USER: ID, 'libvirt': int(fields[2])}),
        f'{USER}:x:{ID}:',
        ':'.join([*fields[:3], ','.join(sorted(members))]),
    ]
    return '\n'.join([*lines, ''])


def _others(text: str, ids: dict[str, int]) -> list[str]:
    # The lines of other names, none of which may have one of these ids.
    lines = [
        line for line in text.splitlines() if line.split(':')[0] not in ids
    ]
    taken = {int(line.split(':')[2]): line.split(':')[0] for line in lines}
    for name, number in ids.items():
        if number in taken:
            raise LabError(
                f'{taken[number]!r} has the id {number}, which {name} needs'
            )
    return lines


def sudoers(shipped: str) -> str:
    """Return the lab's sudoers: the shipped rules, for the lab's places.

    :param shipped: the text of etc/nova_rt/sudoers.d/nova-rt.
    """
    # The configuration is named in a regular expression.
    etc = re.sub(r'[.+]', r'\\\g<0>', f'{paths.ETC}/nova/')
    rules = shipped.replace('/etc/nova/', etc).replace('/usr/bin/', _BIN)
    stock = rules.replace(r'nova-compute\.conf', STOCK.replace('.', r'\.'))
    return _SUDOERS.format(
        venv=paths.VENV,
        rules=rules,
        stock_rules=re.sub(r'\bNOVA_(?=[A-Z])', 'STOCK_NOVA_', stock),
    )


def command(unit: Unit) -> tuple[str, ...]:
    """Return the command of a unit, for the lab's places."""
    places = {
        '/usr/bin/': _BIN,
        '/etc/nova/': f'{paths.ETC}/nova/',
        '/var/log/nova/': f'{paths.LOG}/nova/',
    }
    words = unit.command
    for theirs, ours in places.items():
        words = tuple(word.replace(theirs, ours) for word in words)
    return words
