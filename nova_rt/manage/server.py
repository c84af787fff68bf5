# SPDX-License-Identifier: Apache-2.0
"""``server list|show|history``: what servers reserve, by the database."""

import argparse
from collections.abc import Sequence
import dataclasses
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.cli import base
from nova_rt.manage import stored
from nova_rt.reservation import cpulist
from nova_rt.reservation.extra_specs import SPECS

if TYPE_CHECKING:
    from nova_rt.db.objects import ReportedServer

_LIST = (
    'Server', 'Host', 'Reservation', 'CPUs', 'Total ppm', 'State', 'Since',
)  # fmt: skip
#: Extra specs that are shown by their names alone.
_OTHERS = [field for field in SPECS if field != 'reservation']
_SHOW = (
    'Server', 'Host', 'Reservation', 'ppm', 'vCPUs', 'CPUs', 'Total ppm',
    *(field.replace('_', ' ').capitalize() for field in _OTHERS),
    'State', 'Since',
)  # fmt: skip
_HISTORY = (
    'Time', 'Host', 'Event', 'Details', 'By', 'Request', 'User', 'Project',
)  # fmt: skip

#: Entries of a history that are read unless more are asked for.
_ENTRIES = 100


class List(base.Lister):
    """List the servers that hold reservations, by host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('--host', help='Those of this host alone.')
        parser.add_argument(
            '--all',
            action='store_true',
            help='Also servers that have released theirs.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], list[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        stored.require(self.conf)
        from nova_rt.db import api

        with stored.errors():
            if parsed_args.host is not None:
                # A name that is spelt wrong is not a host without servers.
                api.get_host(parsed_args.host)
            stored.warn_of_no_reports()
            found = api.list_servers(parsed_args.host, parsed_args.all)
        return _LIST, [_list(server) for server in found]


def _list(server: 'ReportedServer') -> Sequence[Any]:
    return (
        server.uuid,
        server.host,
        server.reservation,
        cpulist.render(server.cpus),
        server.total_ppm,
        server.state,
        stored.render_time(server.since),
    )


class Show(base.ShowOne):
    """Show what a server reserves, or reserved last."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('server', help='UUID of the server.')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Read it.

        :returns: columns and values
        """
        stored.require(self.conf)
        from nova_rt.db import api

        with stored.errors():
            server = api.get_server(parsed_args.server)
        return _SHOW, (
            server.uuid,
            server.host,
            server.reservation,
            server.ppm,
            server.vcpus,
            cpulist.render(server.cpus),
            server.total_ppm,
            # None if a conductor of the version before has written the row.
            *map(server.specs.get, _OTHERS),
            server.state,
            stored.render_time(server.since),
        )


class History(base.Lister):
    """List what happened to a server's reservation, the latest first.

    Request, user and project are those of the request to Nova, as in the logs
    of its services; a periodic task has a request and no user.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('server', help='UUID of the server.')
        parser.add_argument(
            '--limit',
            type=stored.parse_count,
            default=_ENTRIES,
            metavar='N',
            help=f'The latest N events. Default: {_ENTRIES}; 0 for all.',
        )
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
            entries = api.get_history(
                parsed_args.server, parsed_args.limit or None
            )
        return _HISTORY, [
            (
                stored.render_time(entry.at), entry.host, entry.kind,
                entry.details, entry.by,
                *dataclasses.astuple(entry.origin),
            )
            for entry in entries
        ]  # fmt: skip
