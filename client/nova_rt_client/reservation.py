# SPDX-License-Identifier: Apache-2.0
"""``rt reservation show|set|list|history``."""

import argparse
from collections.abc import Iterator, Sequence
import time
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from nova_rt_client import api

_LIST = (
    'Server', 'Host', 'Desired', 'Allocated', 'vCPUs', 'Condition', 'State',
)  # fmt: skip
_HISTORY = (
    'Time', 'Event', 'Reservation', 'Host', 'CPUs', 'Details', 'Request',
    'User', 'Project',
)  # fmt: skip
_POLL_S = 0.5

_SERVER = ('server', {'metavar': '<server>', 'help': 'Server (name or ID)'})


def _show(state: dict[str, Any]) -> tuple[Sequence[str], Sequence[Any]]:
    """Render the state of a reservation; reservations as flavors have them.

    :returns: columns and values
    """
    found = dict(state)
    condition = found.pop('condition')
    for name in ('desired', 'allocated', 'actual'):
        found[name] = api.render_reservation(found[name])
    # Of a service that does not know it, as well.
    boost = found.get('boost') or {}
    found['boost'] = api.render_reservation(boost or None)
    found['boost_until'] = boost.get('until')
    found['condition'] = condition.pop('type')
    found |= condition
    return tuple(found), tuple(found.values())


class ShowReservation(api.Caller, command.ShowOne):
    """Show the reservation of a server, and the state of its last change.

    Desired: as asked for; allocated: as claimed on its host; actual: as the
    kernel held it after the last change; boost: what it has while it starts.
    Conditions: Applied; InProgress: its host is asked; Deferred: the host has
    no room now, and is asked again; Infeasible: the reservation stays as it
    is.
    """

    arguments = (_SERVER,)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Read it.

        :returns: columns and values
        """
        server = self.find_server(parsed_args.server)
        return _show(self.client.get_reservation(server))


class SetReservation(api.Caller, command.ShowOne):
    """Change the reservation of a server while it runs.

    Its owner may choose a runtime from rt:runtime_min to rt:runtime_max of the
    flavor; operators may choose any reservation.
    """

    arguments = (
        _SERVER,
        ('reservation', {
            'metavar': '<runtime>/<period>',
            'help': 'New reservation on each vCPU, in microseconds',
        }),
        ('--on-no-room', {
            'choices': ('fail', 'defer', 'migrate'),
            'default': 'fail',
            'help': 'If its host has no room: fail (default), defer the '
            'change until there is room, or migrate the server to a host '
            'that has room',
        }),
        ('--generation', {
            'type': int,
            'metavar': '<number>',
            'help': 'Refuse the change unless the reservation has this '
            'generation',
        }),
        ('--wait', {
            'action': 'store_true',
            'help': 'Wait until the change is applied or infeasible',
        }),
        ('--timeout', {
            'type': int,
            'default': 300,
            'metavar': '<seconds>',
            'help': 'Seconds to wait (default: 300)',
        }),
    )  # fmt: skip

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Ask for the change.

        :returns: columns and values
        """
        runtime_us, period_us = api.parse_reservation(parsed_args.reservation)
        server = self.find_server(parsed_args.server)
        headers = {}
        if parsed_args.generation is not None:
            headers['If-Match'] = f'"{parsed_args.generation}"'
        state = self.client.request(
            'PUT',
            api.make_path(server),
            headers=headers,
            json={
                'reservation': {
                    'runtime_us': runtime_us,
                    'period_us': period_us,
                    'on_no_room': parsed_args.on_no_room,
                }
            },
        )['reservation']
        if parsed_args.wait:
            state = self._wait(state, parsed_args.timeout)
        return _show(state)

    def _wait(self, state: dict[str, Any], limit_s: int) -> dict[str, Any]:
        """Wait until a change is applied, and print each condition.

        :param state: the answer to the request
        :returns: the last state
        :raises CommandError: if it is not applied
        """
        generation = state['generation']
        deadline_s = time.monotonic() + limit_s
        said = ''
        while True:
            if state['generation'] != generation:
                raise exceptions.CommandError(
                    f'change {generation} was replaced by change '
                    f'{state["generation"]}'
                )
            text = _describe(state['condition'])
            if text != said:
                print(text, file=self.app.stderr, flush=True)
                said = text
            kind = state['condition']['type']
            if kind == 'Applied':
                return state
            if kind == 'Infeasible':
                raise exceptions.CommandError(text)
            if time.monotonic() >= deadline_s:
                raise exceptions.CommandError(
                    f'not applied after {limit_s} s: {text}'
                )
            time.sleep(_POLL_S)
            # The change goes on while the service restarts.
            state = self.client.get_reservation(
                state['server_id'], **api.PATIENCE
            )


def _describe(condition: dict[str, Any]) -> str:
    """Describe a condition in one line, with its numbers."""
    parts = [condition['type']]
    if condition['reason']:
        parts.append(condition['reason'])
    numbers = [
        f'{name.removesuffix("_ppm")} {condition[name]} ppm'
        for name in ('asked_ppm', 'free_ppm')
        if condition[name] is not None
    ]
    if numbers:
        parts.append(', '.join(numbers))
    return ': '.join(parts)


class ListReservation(api.Caller, command.Lister):
    """List the reservations of servers."""

    arguments = (
        ('--host', {
            'metavar': '<host>', 'help': 'Only on this host (admin only)',
        }),
        ('--project', {
            'metavar': '<project>',
            'help': 'Only of this project (name or ID; admin only)',
        }),
        ('--all-projects', {
            'action': 'store_true', 'help': 'Of all projects (admin only)',
        }),
    )  # fmt: skip

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        project = parsed_args.project
        if project is not None:
            project = self.cloud.identity.find_project(
                project, ignore_missing=False
            ).id
        found = self.client.get_all(
            '/v1/reservations',
            'reservations',
            host=parsed_args.host,
            project_id=project,
            all_projects='true' if parsed_args.all_projects else None,
        )
        rows = (
            (
                state['server_id'],
                state['host'],
                api.render_reservation(state['desired']),
                api.render_reservation(state['allocated']),
                state['vcpus'],
                state['condition']['type'],
                state['state'],
            )
            for state in found
        )
        return _LIST, rows


class ShowHistory(api.Caller, command.Lister):
    """List the events of the reservation of a server, the latest first."""

    arguments = (
        _SERVER,
        ('--limit', {
            'type': int,
            'default': 100,
            'metavar': '<number>',
            'help': 'Largest number of events (default: 100)',
        }),
    )  # fmt: skip

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], list[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        server = self.find_server(parsed_args.server)
        path = f'{api.make_path(server)}/history'
        events = self.client.get(path, limit=parsed_args.limit)['events']
        return _HISTORY, [
            (
                event['at'],
                event['event'],
                None
                if event['runtime_us'] is None
                else api.render_reservation(event),
                event['host'],
                event['cpus'],
                event['details'],
                event['request_id'],
                event['user_id'],
                event['project_id'],
            )
            for event in events
        ]
