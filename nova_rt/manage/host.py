# SPDX-License-Identifier: Apache-2.0
"""``host list|show``: what hosts can promise and have promised."""

import argparse
from collections.abc import Sequence
import datetime
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.cli import base
from nova_rt.manage import stored

if TYPE_CHECKING:
    from nova_rt.db.objects import ReportedHost, ReportedServer

_LIST = (
    'Host', 'Interface', 'Enforcement', 'CPUs', 'Capacity ppm',
    'Reserved ppm', 'Servers', 'Last report', 'Age s',
)  # fmt: skip
_SHOW = ('CPU', 'Capacity ppm', 'Reserved ppm', 'Free ppm', 'Servers')


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
            stored.warn_of_no_reports()
            hosts = api.list_hosts()
            counts: dict[str, int] = {}
            for server in api.list_servers():
                counts[server.host] = counts.get(server.host, 0) + 1
        now = datetime.datetime.now(datetime.UTC)
        return _LIST, [
            _list(host, counts.get(host.name, 0), now) for host in hosts
        ]


def _list(
    host: 'ReportedHost', servers: int, now: datetime.datetime
) -> Sequence[Any]:
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


def sum_up(host: 'ReportedHost') -> tuple[int, int]:
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
    """List the CPUs of a host: capacity, reserved, free, servers.

    Where the kernel sums over the whole host, the last row has the host.
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

        with stored.errors():
            host = api.get_host(parsed_args.host)
            servers = api.list_servers(host.name)
        rows: list[Sequence[Any]] = [
            (
                cpu, found.capacity_ppm, found.reserved_ppm,
                max(0, found.capacity_ppm - found.reserved_ppm),
                _count(servers, cpu),
            )
            for cpu, found in sorted(host.cpus.items())
        ]  # fmt: skip
        if host.host_ppm is not None:
            capacity, reserved = sum_up(host)
            rows.append(
                (
                    'host', capacity, reserved, max(0, capacity - reserved),
                    len(servers),
                )
            )  # fmt: skip
        return _SHOW, rows


def _count(servers: 'list[ReportedServer]', cpu: int) -> int:
    return sum(cpu in server.cpus for server in servers)


class Reset(base.Command):
    """Take whatever a host reports next.

    The conductors take no report of a start of nova-rt-compute that is older
    than the last one they know. That shuts a host out whose clock was ahead
    once, or that another host has reported for under the same name. Remove
    ``$state_path/nova_rt/epoch-HOST`` on the host as well, and restart its
    nova-rt-compute.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help='Name of the host.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Reset it."""
        stored.require(self.conf)
        from nova_rt.db import api

        with stored.errors():
            api.reset_host(parsed_args.host)


class Delete(base.Command):
    """Delete a host, with the history and the usage of its servers there.

    A host that reports again is there again, with what its servers hold.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help='Name of the host.')
        parser.add_argument(
            '--force',
            action='store_true',
            help='Also a host on which servers hold reservations.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete it.

        :raises CommandFailed: if servers hold something there
        """
        stored.require(self.conf)
        from nova_rt.db import api

        with stored.errors():
            held = api.list_servers(parsed_args.host)
            if held and not parsed_args.force:
                raise base.CommandFailed(
                    f'{len(held)} server(s) hold reservations on '
                    f'{parsed_args.host}: delete or move them first, or use '
                    '--force'
                )
            api.delete_host(parsed_args.host)
