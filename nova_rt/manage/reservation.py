# SPDX-License-Identifier: Apache-2.0
"""``reservation set|show``: a change of a running server's reservation."""

import argparse
from collections.abc import Sequence
import datetime
import time
from typing import TYPE_CHECKING, Any

from nova_rt import exception
from nova_rt.cmd.cli import base
from nova_rt.conf import nova_api
from nova_rt.formats.changes import Change, Condition, OnNoRoom
from nova_rt.manage import db_access
from nova_rt.reservation.reservation import Reservation

if TYPE_CHECKING:
    from nova_rt.cloud.records import ServerRecord

_COLUMNS = (
    'Server', 'Host', 'Condition', 'Desired', 'Allocated', 'Actual',
    'Generation', 'On no room', 'Since', 'Reason', 'Asked ppm', 'Free ppm',
    'Rule',
)  # fmt: skip
#: Conditions that nothing but another request changes.
_ENDS = (Condition.APPLIED, Condition.INFEASIBLE)
_POLL_S = 0.2


def _find(server: str) -> 'ServerRecord':
    """Look up a real-time server on a host.

    :returns: the server
    :raises CommandFailed: if there is none, or its record cannot be read
    """
    from nova_rt.manage import records

    with records.connect() as source:
        found = source.find_server(server)
    if not found.host:
        raise base.CommandFailed(f'server {server} is on no host')
    if found.record is None:
        raise base.CommandFailed(
            f'the record of server {server} cannot be read'
        )
    return found


def _show(server: 'ServerRecord', change: Change | None) -> Sequence[Any]:
    """Render the state of a server.

    :param change: None if there was none
    """
    assert server.record is not None
    allocated = str(server.record.request.reservation)
    if change is None or server.has_ended(change):
        generation = 0 if change is None else change.generation
        return (
            server.uuid, server.host, str(Condition.APPLIED), allocated,
            allocated, '', generation, '', '', '', None, None, '',
        )  # fmt: skip
    answer = change.answer
    return (
        server.uuid,
        server.host,
        str(answer.condition),
        str(change.desired),
        allocated,
        answer.actual,
        change.generation,
        str(change.on_no_room),
        db_access.render_time(change.since),
        answer.reason,
        answer.asked_ppm or None,
        answer.free_ppm if answer.asked_ppm else None,
        answer.rule,
    )


def _parse(text: str) -> Reservation:
    try:
        return Reservation.parse(text)
    except exception.InvalidRequest as err:
        raise base.CannotRun(str(err)) from err


class Show(base.OfServer, base.ShowOne):
    """Show the change of a server's reservation, and its state.

    Desired: as asked for; allocated: as claimed on its host and recorded;
    actual: as the kernel held it after the last change. Conditions:
    ``Applied``; ``InProgress``: a host is asked; ``Deferred``: it has no room
    now, and is asked again; ``Infeasible``: it stays as it is.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Values:
        """Read columns and values."""
        db_access.require(self.conf)
        from nova_rt.db import changes

        server = _find(parsed_args.server)
        with db_access.errors():
            change = changes.get(server.uuid)
        return _COLUMNS, _show(server, change)


class Set(base.OfServer, base.ShowOne):
    """Change the reservation of a server while it runs.

    The host decides: it grows if there is room on its CPUs, or on others of
    the host; it may always shrink. The change lasts until the server is
    resized to another flavor. The exit code is 1 if the change is refused, or
    if it is not applied at the end of ``--wait``.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        super().add_arguments(parser)
        parser.add_argument(
            'reservation',
            metavar='RUNTIME/PERIOD',
            help='The new reservation, microseconds, on each vCPU.',
        )
        parser.add_argument(
            '--on-no-room',
            choices=[str(each) for each in OnNoRoom],
            default=str(OnNoRoom.FAIL),
            help='If its host has no room: fail, defer the change until '
            'there is room, or migrate the server to a host that has room. '
            'Default: fail.',
        )
        parser.add_argument(
            '--generation',
            type=db_access.parse_count,
            metavar='N',
            help='Refuse the change unless the last one has this generation, '
            'as "reservation show" shows it.',
        )
        parser.add_argument(
            '--wait',
            action='store_true',
            help='Wait until the change is applied or infeasible.',
        )
        parser.add_argument(
            '--timeout',
            type=db_access.parse_count,
            default=300,
            metavar='SECONDS',
            help='Seconds to wait. Default: 300.',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Values:
        """Store the wish, and wake a conductor.

        :returns: columns and values
        :raises CommandFailed: if the server cannot be changed now, or somebody
            else has changed it
        """
        db_access.require(self.conf)
        from nova_rt.cloud import buses
        from nova_rt.conductor.wishes import Wishes

        wish = _parse(parsed_args.reservation)
        on_no_room = OnNoRoom(parsed_args.on_no_room)
        if on_no_room is OnNoRoom.MIGRATE and not (
            nova_api.is_configured(self.conf)
        ):
            raise base.CannotRun(nova_api.NO_CREDENTIALS)
        server = _find(parsed_args.server)
        self._check_period(wish, server)
        if server.obstacle is not None:
            raise base.CommandFailed(f'not now: {server.obstacle}')
        wanted = server.change(
            wish,
            on_no_room,
            datetime.datetime.now(datetime.UTC),
        )
        with db_access.errors():
            find_bus = buses.Buses().find
            change = Wishes(self.conf, 'nova-rt-manage', find_bus).add(
                wanted, parsed_args.generation
            )
        if parsed_args.wait:
            change = self._wait(change, parsed_args.timeout)
            if change.answer.condition is not Condition.APPLIED:
                self.exit_code = 1
        return _COLUMNS, _show(_find(server.uuid), change)

    def _check_period(self, wish: Reservation, server: 'ServerRecord') -> None:
        """Check another period against the bounds of today."""
        assert server.record is not None
        if wish.period_us == server.record.request.reservation.period_us:
            return
        group = self.conf.nova_rt
        try:
            wish.check_period(group.min_period_us, group.max_period_us)
        except exception.InvalidRequest as err:
            raise base.CannotRun(str(err)) from err

    def _wait(self, change: Change, limit_s: int) -> Change:
        """Wait for the end of a change.

        :returns: the change as it is then
        :raises CommandFailed: if there is a newer one
        """
        from nova_rt.db import changes

        deadline_s = time.monotonic() + limit_s
        said = ''
        while True:
            with db_access.errors():
                found = changes.get(change.server)
            if found is None or found.generation != change.generation:
                raise base.CommandFailed('there is a newer change')
            text = f'{found.answer.condition} {found.answer.reason}'
            if text != said:
                self.app.LOG.info('%s', text)
                said = text
            if (
                found.answer.condition in _ENDS
                or time.monotonic() >= deadline_s
            ):
                return found
            time.sleep(_POLL_S)
