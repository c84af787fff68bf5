# SPDX-License-Identifier: Apache-2.0
"""``server list|show|history|reservations``: the reservations of servers."""

import argparse
from collections.abc import Sequence
import dataclasses
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.cli import base
from nova_rt.manage import db_access, progress
from nova_rt.reservation import cpulist
from nova_rt.reservation.extra_specs import SPECS

if TYPE_CHECKING:
    from nova_rt.cloud.records import Holding
    from nova_rt.formats.history import HistoryEvent, Interval

_LIST = ('Server', 'Host', 'Reservation', 'CPUs', 'Total ppm', 'State')
#: Extra specs that are shown by their names alone.
_OTHERS = [field for field in SPECS if field != 'reservation']
_SHOW = (
    'Server', 'Host', 'Reservation', 'ppm', 'vCPUs', 'CPUs', 'Total ppm',
    *(field.replace('_', ' ').capitalize() for field in _OTHERS),
    'State',
)  # fmt: skip
_HISTORY = (
    'Time', 'Host', 'Event', 'Reservation', 'CPUs', 'Details', 'Request',
    'User', 'Project',
)  # fmt: skip
_RESERVATIONS = ('Host', 'Reservation', 'CPUs', 'From', 'To')

#: Entries of a history that are read unless more are asked for.
_ENTRIES = 100


class List(base.Lister):
    """List the servers that hold bandwidth, by host, as Nova has them.

    A server that was resized or migrated is listed twice until that is
    confirmed or reverted. State ``held``: the bandwidth is the server's;
    ``busy``: something is being done to the server, which may change it;
    ``resized``: it is kept where the server was; ``unreadable``: the record
    cannot be read.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument('--host', help='Those of this host alone.')

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Read columns and rows."""
        from nova_rt.manage import records

        with records.connect() as source:
            nodes = source.find_nodes(parsed_args.host)
            return _LIST, [
                _list(each)
                for node in progress.track(nodes, 'Hosts', self.app.stderr)
                for each in source.list_holdings(node)
            ]


def _list(held: 'Holding') -> Sequence[Any]:
    rec = held.record
    return (
        held.server,
        held.host,
        None if rec is None else str(rec.request.reservation),
        None if rec is None else cpulist.render(rec.cpus),
        held.total_ppm,
        held.state,
    )


class Show(base.OfServer, base.ShowOne):
    """Show the reservation of a server on its host, or its last one.

    If Nova has no such server any more, or it is on no host, the history, if
    there is one, has its last reservation; the state is ``released`` then.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Values:
        """Read columns and values."""
        from nova_rt.manage import records

        with records.connect() as source:
            held = source.find_holding(parsed_args.server)
        if held is not None:
            return _SHOW, _show(held)
        return _SHOW, self._show_last(parsed_args.server)

    def _show_last(self, uuid: str) -> Sequence[Any]:
        nothing = base.CommandFailed(f'server {uuid} holds no bandwidth')
        if not db_access.connect(self.conf):
            raise nothing
        from nova_rt.db import api

        with db_access.errors():
            found = api.get_intervals(uuid)
        if not found:
            raise nothing
        last = found[-1]
        unknown = [None] * len(_OTHERS)
        return (
            uuid, last.host, last.reservation, None, len(last.cpus),
            last.describe_cpus(), None, *unknown, 'released',
        )  # fmt: skip


def _show(held: 'Holding') -> Sequence[Any]:
    rec = held.record
    if rec is None:
        unknown = [None] * (len(_SHOW) - 3)
        return held.server, held.host, *unknown, held.state
    specs = rec.request.plain()
    return (
        held.server,
        held.host,
        str(rec.request.reservation),
        rec.request.reservation.ppm,
        rec.request.vcpus,
        cpulist.render(rec.cpus),
        held.total_ppm,
        *map(specs.get, _OTHERS),
        held.state,
    )


class History(base.OfServer, base.Lister):
    """List the events of a server's reservation, the latest first.

    Times are those of the hosts' clocks. Request, user and project are those
    of the request to Nova, as in the logs of its services; a periodic task has
    a request and no user.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        super().add_arguments(parser)
        parser.add_argument(
            '--limit',
            type=db_access.parse_count,
            default=_ENTRIES,
            metavar='N',
            help=f'The latest N events. Default: {_ENTRIES}; 0 for all.',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Read columns and rows."""
        db_access.require(self.conf)
        from nova_rt.db import api

        with db_access.errors():
            events = api.get_history(
                parsed_args.server, parsed_args.limit or None
            )
        return _HISTORY, [_describe(event) for event in events]


def _describe(event: 'HistoryEvent') -> Sequence[Any]:
    return (
        db_access.render_time(event.at),
        event.host,
        event.kind,
        event.reservation,
        '' if event.cpus is None else cpulist.render(event.cpus),
        event.details,
        *dataclasses.astuple(event.origin),
    )


class Reservations(base.OfServer, base.Lister):
    """List the intervals in which a server held reservations.

    During a move it holds two reservations. ``To`` is empty while no event
    says that a reservation is over: if Nova deletes a server while the compute
    service of its host is down, none does.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Read columns and rows."""
        db_access.require(self.conf)
        from nova_rt.db import api

        with db_access.errors():
            found = api.get_intervals(parsed_args.server)
        return _RESERVATIONS, [_span(each) for each in found]


def _span(interval: 'Interval') -> Sequence[Any]:
    until = interval.until
    return (
        interval.host,
        interval.reservation,
        interval.describe_cpus(),
        db_access.render_time(interval.since),
        '' if until is None else db_access.render_time(until),
    )
