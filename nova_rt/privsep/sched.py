# SPDX-License-Identifier: Apache-2.0
"""Privileged: reservations of nova-rt-sched, the scheduler in BPF.

Its daemon takes changes from root alone (scx/README.rst has the protocol).
Nothing here trusts its caller: it may change the groups in the partition, as
in :mod:`nova_rt.privsep.cgroup`.
"""

from collections.abc import Iterable, Mapping
import errno
import pathlib
import re
import socket
import time

import nova_rt.privsep
from nova_rt.privsep import paths
from nova_rt.privsep.kernel import SystemCalls
from nova_rt.privsep.paths import Place

#: Below the directory of run-time files.
SOCKET = 'nova-rt-sched/socket'

#: Seconds for one answer. The daemon answers in a millisecond.
_PATIENCE_S = 5
#: Seconds between attempts to connect to a daemon that others keep busy.
_PAUSE_S = 0.01

_CPUS = re.compile('[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*')


def ask(path: pathlib.Path, request: str) -> list[Mapping[str, str]]:
    """Send a request to the daemon.

    :param path: of its socket
    :param request: a line of its protocol
    :returns: for each line of the answer, its keys and values
    :raises OSError: with the daemon's errno and text; ECONNREFUSED if it does
        not run; EIO for another protocol
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE_S)
        try:
            _connect(connection, path)
            connection.sendall(f'{request}\n'.encode(errors='surrogateescape'))
            with connection.makefile(
                encoding='utf-8', errors='surrogateescape'
            ) as lines:
                return _parse(lines)
        except TimeoutError as err:
            raise OSError(
                errno.ETIMEDOUT, f'nova-rt-sched does not answer on {path}'
            ) from err


def _connect(connection: socket.socket, path: pathlib.Path) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            connection.connect(str(path))
            return
        except (FileNotFoundError, ConnectionRefusedError) as err:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED,
                'nova-rt-sched does not run: see systemctl status '
                'nova-rt-sched',
            ) from err
        except BlockingIOError as err:
            # Its queue is full, for which a socket with a time-out does not
            # wait.
            if time.monotonic() >= until_s:
                raise TimeoutError from err
        time.sleep(_PAUSE_S)


def _parse(lines: Iterable[str]) -> list[Mapping[str, str]]:
    rows: list[Mapping[str, str]] = []
    for line in lines:
        kind, _, rest = line.rstrip('\n').partition(' ')
        if kind == 'ok':
            return rows
        if kind == 'error':
            name, _, text = rest.partition(' ')
            raise OSError(getattr(errno, name, errno.EIO), text)
        pairs = (word.partition('=') for word in rest.split(' '))
        rows.append({key: value for key, _, value in pairs})
    raise OSError(errno.EIO, 'nova-rt-sched broke off its answer')


class SchedHelper:
    """The privileged functions, for a machine.

    Every method raises OSError with the daemon's errno; EACCES for a group
    that is not in the partition.
    """

    def __init__(self, kernel: SystemCalls | None = None) -> None:
        self._kernel = kernel or SystemCalls()

    def reserve(
        self, path: str, runtime_us: int, period_us: int, cpus: str
    ) -> None:
        """Give a group a reservation, or another one.

        :param path: of a group
        :param cpus: a list of ranges
        """
        if not _CPUS.fullmatch(cpus):
            raise OSError(errno.EINVAL, f'{cpus!r} is no list of CPUs')
        group = self._inside(path)
        self._ask(f'set {group} {int(runtime_us)} {int(period_us)} {cpus}')

    def release(self, path: str) -> None:
        """Take the reservation of a group.

        :param path: of a group
        """
        self._ask(f'clear {self._inside(path)}')

    def _ask(self, request: str) -> None:
        ask(pathlib.Path(self._kernel.run, SOCKET), request)

    def _inside(self, path: str) -> str:
        """The daemon's name for a group, which must be in the partition."""
        group, _ = paths.split(self._kernel, f'{path}/any')
        # A space would begin the next word of the request.
        if group.place is not Place.INSIDE or ' ' in group.below:
            raise paths.refuse(path, self._kernel.partition)
        with paths.opened(self._kernel, group):
            return group.below


# What the helper is asked for, one by one. oslo.privsep finds them by name.


@nova_rt.privsep.rt_pctxt.entrypoint
def reserve(path: str, runtime_us: int, period_us: int, cpus: str) -> None:
    """See :meth:`SchedHelper.reserve`."""
    SchedHelper().reserve(path, runtime_us, period_us, cpus)


@nova_rt.privsep.rt_pctxt.entrypoint
def release(path: str) -> None:
    """See :meth:`SchedHelper.release`."""
    SchedHelper().release(path)
