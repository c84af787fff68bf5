# SPDX-License-Identifier: Apache-2.0
"""Starts a service as systemd would: reads its unit with the drop-ins.

The lab has no systemd, but its nova-compute runs by the file that operators
install. A directive that is not understood here ends the lab: it would be in
force in production, and the lab would prove nothing of it.
"""

from collections.abc import Iterable
import dataclasses
import pathlib
import resource
import shlex

from lab.console import LabError

# Directives with a value each, those that may come several times, and those
# that are systemd's own business.
_SINGLE = {'User', 'Group', 'WorkingDirectory', 'TimeoutStopSec'}
_LISTS = {'CapabilityBoundingSet', 'RuntimeDirectory'}
_LIMITS = {'LimitNOFILE': 'nofile', 'LimitCORE': 'core'}
_NOT_FOR_US = {'Type', 'NotifyAccess', 'Restart', 'TimeoutStartSec'}


@dataclasses.dataclass(frozen=True)
class Unit:
    """The [Service] section of a unit, as far as the lab follows it.

    :param command: of ExecStart.
    :param capabilities: of the bounding set, as ``CAP_CHOWN``.
    :param limits: resource limits, by the names that prlimit gives them.
    :param runtime: directories below /run, made for the user.
    :param stop_s: seconds that the service gets to end in order.
    """

    command: tuple[str, ...]
    user: str
    group: str
    capabilities: tuple[str, ...]
    limits: tuple[tuple[str, str], ...]
    runtime: tuple[str, ...]
    stop_s: float

    def around(self, command: Iterable[str]) -> tuple[str, ...]:
        """Return the command that becomes another, by the unit."""
        bounding = ['-all']
        bounding += [
            f'+{name.removeprefix("CAP_").lower()}'
            for name in self.capabilities
        ]
        return (
            'prlimit',
            *(
                f'--{name}={_possible(name, int(value))}'
                for name, value in self.limits
            ),
            'setpriv',
            f'--reuid={self.user}',
            f'--regid={self.group}',
            '--init-groups',
            '--inh-caps=-all',
            f'--bounding-set={",".join(bounding)}',
            *command,
        )


def _possible(name: str, value: int) -> int:
    # A machine that is a container itself may not raise its own limits.
    number = getattr(resource, f'RLIMIT_{name.upper()}')
    hard = resource.getrlimit(number)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def read(files: Iterable[pathlib.Path]) -> Unit:
    """Read a unit and its drop-ins, in this order.

    :raises LabError: for a directive that the lab does not follow.
    """
    single: dict[str, str] = {}
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    commands: list[str] = []
    for key, value in _service_section(files):
        if key == 'ExecStart':
            # An empty one takes back those before.
            commands = [*commands, value] if value else []
        elif key in _LISTS:
            lists[key] = [*lists[key], *value.split()] if value else []
        elif key in _SINGLE or key in _LIMITS:
            single[key] = value
        elif key not in _NOT_FOR_US:
            raise LabError(f'{key}={value} of a unit: the lab does not do it')
    if len(commands) != 1:
        raise LabError(f'a unit with {len(commands)} commands')
    if single.get('WorkingDirectory') != '~':
        raise LabError('a unit whose directory is not the home of its user')
    return Unit(
        command=tuple(shlex.split(commands[0])),
        user=single['User'],
        group=single['Group'],
        capabilities=tuple(lists['CapabilityBoundingSet']),
        limits=tuple(
            (name, single[key])
            for key, name in _LIMITS.items()
            if key in single
        ),
        runtime=tuple(lists['RuntimeDirectory']),
        stop_s=float(single['TimeoutStopSec']),
    )


def _service_section(
    files: Iterable[pathlib.Path],
) -> Iterable[tuple[str, str]]:
    for file in files:
        section = ''
        for line in file.read_text().splitlines():
            if line.startswith('['):
                section = line
            elif section == '[Service]' and line and line[0] not in '#;':
                key, _, value = line.partition('=')
                yield key.strip(), value.strip()
