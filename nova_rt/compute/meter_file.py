# SPDX-License-Identifier: Apache-2.0
"""The file in which a meter keeps what it has read."""

import dataclasses
import json
import pathlib
import time
from typing import Any

from nova_rt.compute import state_files
from nova_rt.compute.ledger import HOUR_US, Ledger
from nova_rt.host.interface import Counted, Usage

_VERSION = 1
_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')
#: What servers hold while a host is off counts for so long at most.
_MOST_OFF_US = 7 * 24 * HOUR_US


class Clock:
    """The clocks of this host, in microseconds."""

    def __init__(self) -> None:
        self.boot = _BOOT_ID.read_text().strip()

    def wall_us(self) -> int:
        """Return the time since 1970."""
        return time.time_ns() // 1000

    def running_us(self) -> int:
        """Return the time since boot; it does not jump."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@dataclasses.dataclass(frozen=True)
class Moment:
    """A point in time, by both clocks in microseconds.

    :ivar wall_us: since 1970
    :ivar running_us: since boot
    """

    wall_us: int
    running_us: int


@dataclasses.dataclass
class Metered:
    """A server, as far as it is in the ledger.

    :ivar held_ppm: bandwidth on all CPUs
    :ivar held_to: up to then that is in the ledger
    :ivar counted: what was counted up to now; None of a container that has
        not been read
    :ivar counted_to: up to then that is in the ledger
    """

    held_ppm: int
    held_to: Moment
    counted: Counted | None
    counted_to: Moment


@dataclasses.dataclass(frozen=True)
class Kept:
    """The state of a meter.

    :ivar number: of the meter
    :ivar now: when it was read
    :ivar servers: UUID -> server
    """

    number: int
    now: Moment
    servers: dict[str, Metered]
    ledger: Ledger


def render(kept: Kept, boot: str) -> str:
    """Write the state of a meter as text.

    :param boot: identity of this boot
    :returns: one line
    """
    return json.dumps(
        {
            'v': _VERSION,
            'boot': boot,
            'number': kept.number,
            'now': dataclasses.astuple(kept.now),
            'servers': {
                uuid: [
                    server.held_ppm,
                    dataclasses.astuple(server.held_to),
                    dataclasses.astuple(server.counted_to),
                    server.counted and _dump(server.counted),
                ]
                for uuid, server in kept.servers.items()
            },
            'hours': kept.ledger.dump(),
        }
    )


class MeterFile:
    """The file of a host.

    :param path: see :func:`meter_path`
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def write(self, text: str) -> None:
        """Replace the file.

        :param text: see :func:`render`
        :raises OSError: if that fails
        """
        state_files.replace(self.path, text)

    def read(self, clock: Clock) -> Kept:
        """Read the file; of an earlier boot, no counts.

        :returns: the state that was kept
        :raises OSError: if it cannot be read
        :raises ValueError: or TypeError or LookupError, if it is not as
            :func:`render` writes it
        """
        kept = json.loads(self.path.read_text())
        if kept['v'] != _VERSION:
            raise ValueError(f'version {kept["v"]}')
        then = Moment(*map(int, kept['now']))
        running_us = clock.running_us()
        rebooted = kept['boot'] != clock.boot
        off_us = min(max(0, clock.wall_us() - then.wall_us), _MOST_OFF_US)
        servers = {}
        known = dict(kept['servers'])
        for uuid, (ppm, *moments, counted) in known.items():
            held_to, counted_to = (Moment(*map(int, m)) for m in moments)
            if rebooted:
                # As if this boot had begun when the host went off.
                held_to = Moment(held_to.wall_us, running_us - off_us)
                counted_to, counted = held_to, None
            servers[str(uuid)] = Metered(
                int(ppm),
                held_to,
                None if counted is None else _load(counted),
                counted_to,
            )
        return Kept(
            int(kept['number']),
            Moment(then.wall_us, running_us),
            servers,
            Ledger.load(kept['hours']),
        )


def _dump(counted: Counted) -> list[Any]:
    return [
        counted.container,
        {
            cpu: [usage.periods, usage.throttled, usage.used_us]
            for cpu, usage in counted.cpus.items()
        },
    ]


def _load(kept: list[Any]) -> Counted:
    container, cpus = kept
    return Counted(
        int(container),
        {int(cpu): _load_usage(*counts) for cpu, counts in dict(cpus).items()},
    )


def _load_usage(periods: Any, throttled: Any, used_us: Any) -> Usage:
    return Usage(
        None if periods is None else int(periods),
        None if throttled is None else int(throttled),
        int(used_us),
    )


def meter_path(state_path: str, host: str) -> pathlib.Path:
    """Name the file of a meter.

    :param state_path: Nova's
    :param host: name of this host
    :returns: a file that two hosts of one directory do not share
    """
    return state_files.find(state_path, 'usage', host)
