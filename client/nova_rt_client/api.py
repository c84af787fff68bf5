# SPDX-License-Identifier: Apache-2.0
"""The calls of nova-rt-api, and common code of the commands."""

import argparse
from collections.abc import Iterator
import re
from typing import Any
from urllib import parse
import uuid

from keystoneauth1 import adapter
from osc_lib import exceptions
from osc_lib.command import command

_MICROVERSION = '1.0'

#: Arguments of a request that outlasts a restart of the service, with retries
#: for half a minute.
PATIENCE: dict[str, Any] = {
    'connect_retries': 6,
    'status_code_retries': 6,
    'retriable_status_codes': [502, 503, 504],
}


class Client:
    """nova-rt-api, as the catalog names it.

    :param session: a keystoneauth1.session.Session
    :param where: arguments of keystoneauth1.adapter.Adapter
    """

    def __init__(self, session: Any, **where: Any) -> None:
        self._adapter = adapter.Adapter(
            session, default_microversion=_MICROVERSION, **where
        )

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Call the service.

        :param more: arguments of keystoneauth1.session.Session.request
        :returns: the answer
        :raises CommandError: with the text of an error
        """
        headers = {'Accept': 'application/json'} | more.pop('headers', {})
        response = self._adapter.request(
            path, method, raise_exc=False, headers=headers, **more
        )
        if response.ok:
            found: dict[str, Any] = response.json()
            return found
        raise exceptions.CommandError(_describe(response))

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Read something.

        :param query: parameters; None for those to leave out
        :returns: the answer
        """
        return self.request('GET', _add(path, query))

    def get_all(self, path: str, key: str, **query: Any) -> Iterator[Any]:
        """Read a list, page by page.

        :param key: of the list in an answer
        :returns: its items
        """
        url = _add(path, query)
        while url:
            found = self.request('GET', url)
            yield from found[key]
            links = found.get(f'{key}_links', [])
            url = next((link['href'] for link in links), '')

    def get_reservation(self, server: str, **more: Any) -> dict[str, Any]:
        """Read the reservation of a server.

        :param server: UUID
        :param more: as for :meth:`request`
        :returns: its state
        """
        answer = self.request('GET', make_path(server), **more)
        found: dict[str, Any] = answer['reservation']
        return found


def make_path(server: str) -> str:
    """Make the path of a reservation.

    :param server: UUID
    :returns: the path
    """
    return f'/v1/servers/{server}/reservation'


def _add(path: str, query: dict[str, Any]) -> str:
    given = {name: text for name, text in query.items() if text is not None}
    return f'{path}?{parse.urlencode(given)}' if given else path


def _describe(response: Any) -> str:
    """Describe an error in one line, of any service or none."""
    try:
        error = response.json()['errors'][0]
        return f'{error["detail"]} (HTTP {error["status"]}, {error["code"]})'
    except (ValueError, LookupError, TypeError):
        return f'{response.reason} (HTTP {response.status_code})'


class Caller(command.Command):
    """A command that calls nova-rt-api.

    :cvar arguments: names of its arguments, and options of each
    """

    arguments: tuple[tuple[str, dict[str, Any]], ...] = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        for name, options in self.arguments:
            parser.add_argument(name, **options)
        return parser

    @property
    def client(self) -> Client:
        """The client of the service."""
        # The OpenStack client has an attribute for each plug-in.
        manager: Any = self.app.client_manager
        found: Client = manager.rt
        return found

    @property
    def cloud(self) -> Any:
        """The openstack.connection.Connection."""
        return self.app.client_manager.sdk_connection

    def find_server(self, text: str) -> str:
        """Look up a server by its name or UUID.

        A UUID is not looked up: a deleted server has a history.

        :returns: UUID
        """
        try:
            return str(uuid.UUID(text))
        except ValueError:
            found = self.cloud.compute.find_server(text, ignore_missing=False)
            return str(found.id)


def parse_reservation(text: str) -> tuple[int, int]:
    """Parse ``<runtime_us>/<period_us>``.

    :returns: both numbers
    :raises CommandError: if it is something else
    """
    match = re.fullmatch('([0-9]{1,9})/([0-9]{1,9})', text, re.ASCII)
    if match is None or int(match[2]) == 0:
        raise exceptions.CommandError(
            f'{text!r} is not a reservation: write <runtime_us>/<period_us>, '
            'for example 1400/2000'
        )
    return int(match[1]), int(match[2])


def render_reservation(found: dict[str, int] | None) -> str | None:
    """Render a reservation as flavors have it; None for none."""
    if found is None:
        return None
    return f'{found["runtime_us"]}/{found["period_us"]}'
