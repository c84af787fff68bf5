# SPDX-License-Identifier: Apache-2.0
"""``host list|show``: what hosts can promise and have promised."""

import argparse
from collections.abc import Sequence
import datetime
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.cli import base
from nova_rt.cmd.manage import stored

if TYPE_CHECKING:
    from nova_rt.db.objects import Host, Server

_LIST = (
    'Host', 'Interface', 'Enforcement', 'CPUs', 'Capacity ppm',
    'Reserved ppm', 'Servers', 'Last report', 'Age s',
)  # fmt: skip
_SHOW = (
    'CPU', 'Capacity ppm', 'Reserved ppm', 'Free ppm', 'Used ppm', 'Servers',
)  # fmt: skip

#: The span over which the use of a CPU is averaged.
_RECENT = datetime.timedelta(minutes=10)


class List(base.Lister):
    """List the hosts that report reservations.

    A host that has not reported for some minutes is told by its age: its
    compute service is down, or no nova-rt-conductor takes its reports.
    """

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], list[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        stored.require(self.conf)
        from nova_rt.db import api

        with stored.errors():
            hosts = api.list_hosts()
            counts: dict[str, int] = {}
            for server in api.list_servers():
                counts[server.host] = counts.get(server.host, 0) + 1
        now = datetime.datetime.now(datetime.UTC)
        return _LIST, [
            _list(host, counts.get(host.name, 0), now) for host in hosts
        ]


def _list(host: 'Host', servers: int, now: datetime.datetime) -> Sequence[Any]:
    capacity, reserved = sum_up(host)
    return (
        host.name,
        host.interface,
        host.enforcement,
        len(host.cpus),
        capacity,
        reserved,
        servers,
        stored.render_time(host.last_report_at),
        round((now - host.last_report_at).total_seconds()),
    )


def sum_up(host: 'Host') -> tuple[int, int]:
    """Capacity and reservations of a whole host.

    :returns: both in ppm of a CPU
    """
    capacity = sum(cpu.capacity_ppm for cpu in host.cpus.values())
    reserved = sum(cpu.reserved_ppm for cpu in host.cpus.values())
    if host.host_ppm is not None:
        capacity = min(capacity, host.host_ppm)
    if host.host_reserved_ppm is not None:
        reserved = host.host_reserved_ppm
    return capacity, reserved


class Show(base.Lister):
    """List the CPUs of a host: capacity, reserved, free, used, servers.

    What is used is the mean of the last ten minutes, None where the kernel
    does not count it. Where the kernel sums over the whole host, the
    last row has the host.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help='Name of the host.')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], list[Sequence[Any]]]:
        """Read it.

        :returns: columns and rows
        """
        stored.require(self.conf)
        from nova_rt.db import api

        now = datetime.datetime.now(datetime.UTC)
        with stored.errors():
            host = api.get_host(parsed_args.host)
            servers = api.list_servers(host.name)
            used = _measure(host.name, now)
        rows: list[Sequence[Any]] = [
            (
                cpu, found.capacity_ppm, found.reserved_ppm,
                max(0, found.capacity_ppm - found.reserved_ppm),
                used.get(cpu), _count(servers, cpu),
            )
            for cpu, found in sorted(host.cpus.items())
        ]  # fmt: skip
        if host.host_ppm is not None:
            capacity, reserved = sum_up(host)
            # None is more than a sum that lacks some.
            every = [used.get(cpu) for cpu in host.cpus]
            total = None if None in every else sum(filter(None, every))
            rows.append(
                (
                    'host', capacity, reserved, max(0, capacity - reserved),
                    total, len(servers),
                )
            )  # fmt: skip
        return _SHOW, rows


def _measure(host: str, now: datetime.datetime) -> dict[int, int | None]:
    """Find what servers have used of each CPU lately.

    :returns: CPU -> ppm; None if the kernel does not count it
    """
    from nova_rt.db import api

    totals: dict[int, tuple[int, int | None]] = {}
    for sample in api.read_host_samples(host, now - _RECENT, now):
        span_us, used_us = totals.get(sample.cpu, (0, 0))
        if sample.used_us is None or used_us is None:
            used_us = None
        else:
            used_us += sample.used_us
        totals[sample.cpu] = (span_us + sample.span_us, used_us)
    return {
        cpu: None if used_us is None else used_us * 1_000_000 // span_us
        for cpu, (span_us, used_us) in totals.items()
        if span_us
    }


def _count(servers: 'list[Server]', cpu: int) -> int:
    return sum(cpu in server.cpus for server in servers)
