# SPDX-License-Identifier: Apache-2.0
"""``rt host list|show``, for operators."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any
from urllib import parse

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_rt_client import api

_COLUMNS = (
    'name', 'interface', 'enforcement', 'capacity_ppm', 'reserved_ppm',
    'free_ppm', 'servers', 'seen_at',
)  # fmt: skip


class ListHost(api.Caller, command.Lister):
    """List the hosts that offer bandwidth."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        titles = [name.capitalize().replace('_', ' ') for name in _COLUMNS]
        hosts = self.client.get_all('/v1/hosts', 'hosts')
        return titles, (tuple(map(host.get, _COLUMNS)) for host in hosts)


class ShowHost(api.Caller, command.ShowOne):
    """Show a host: the bandwidth of each CPU, and the servers on it."""

    arguments = (('host', {'metavar': '<host>', 'help': 'Name of the host'}),)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Read it.

        :returns: columns and values
        """
        name = parse.quote(parsed_args.host, safe='')
        host = self.client.get(f'/v1/hosts/{name}')['host']
        cpus = format_columns.ListDictColumn(host['cpus'])
        return (*_COLUMNS, 'cpus'), (*map(host.get, _COLUMNS), cpus)
