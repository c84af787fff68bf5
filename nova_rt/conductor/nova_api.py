# SPDX-License-Identifier: Apache-2.0
"""Nova's API, as a conductor uses it to move servers."""

import dataclasses
import functools
from typing import Any, Self

from keystoneauth1 import adapter, loading
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg

from nova_rt.conf import nova_api

#: Of the Wallaby release; with the reasons of failed actions.
_MICROVERSION = '2.84'


class NoAnswer(Exception):
    """Nova cannot do it now; asking again may help."""


class NotNow(NoAnswer):
    """Nova has refused it because of the state of the server."""


class Refused(Exception):
    """Nova does not do it."""


class Gone(Refused):
    """Nova has no such server."""


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that was asked of Nova for a server.

    :ivar name: such as ``migrate``
    :ivar request: its request ID
    :ivar user: ID of the user who has asked
    :ivar failed: whether it has failed
    """

    name: str
    request: str
    user: str | None
    failed: bool


@dataclasses.dataclass(frozen=True)
class Server:
    """The state of a server.

    :ivar host: '' if it is unknown
    :ivar waiting: whether it has moved, and waits for the confirmation
    :ivar idle: whether nothing is being done to it
    """

    host: str
    waiting: bool
    idle: bool


class NovaAPI:
    """A client with the credentials of the conductor.

    :param client: for Nova's API
    """

    def __init__(self, client: adapter.Adapter) -> None:
        self._client = client

    @classmethod
    def from_options(cls, conf: cfg.ConfigOpts) -> Self | None:
        """Make a client.

        :returns: None if there are no credentials
        :raises ClientException: if they are incomplete
        """
        if not nova_api.is_configured(conf):
            return None
        group = nova_api.GROUP.name
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(
            conf, group, auth=auth
        )
        return cls(
            loading.load_adapter_from_conf_options(
                conf, group, session=session, auth=auth
            )
        )

    @functools.cached_property
    def user(self) -> str | None:
        """The ID of the user that Nova sees.

        :returns: None for a plug-in without users
        :raises NoAnswer: if Keystone does not answer
        """
        try:
            found: str | None = self._client.get_user_id()
        except ks_exc.ClientException as err:
            raise NoAnswer(_describe(err)) from err
        return found

    def list_actions(self, server: str) -> list[Action]:
        """List all that was asked of Nova for a server.

        :param server: UUID
        :returns: the latest first
        :raises NoAnswer: if there is none now
        :raises Refused: if Nova does not show it
        """
        body = self._send('GET', f'/servers/{server}/os-instance-actions')
        return [
            Action(
                each['action'],
                each['request_id'],
                each['user_id'],
                each['message'] is not None,
            )
            for each in body.json()['instanceActions']
        ]

    def find_reason(self, server: str, request: str) -> str:
        """Find the reason for which an action has failed.

        :returns: a sentence of Nova, '' if it does not tell
        :raises NoAnswer: if there is none now
        :raises Refused: if Nova does not show it
        """
        path = f'/servers/{server}/os-instance-actions/{request}'
        events = self._send('GET', path).json()['instanceAction']['events']
        found = [
            each.get('details') or ''
            for each in sorted(events, key=lambda each: each['start_time'])
            if each['result'] == 'Error'
        ]
        # The last is the one that was not tried again.
        return found[-1] if found else ''

    def find_server(self, server: str) -> Server:
        """Look up the state of a server.

        :returns: it
        :raises NoAnswer: if there is none now
        :raises Refused: if Nova does not show it
        """
        found = self._send('GET', f'/servers/{server}').json()['server']
        if 'OS-EXT-STS:task_state' not in found:
            # As in doc/api-guide, "Handling Down Cells", of Nova.
            raise NoAnswer(f'Nova does not reach the cell of server {server}')
        idle = found['OS-EXT-STS:task_state'] is None
        return Server(
            found.get('OS-EXT-SRV-ATTR:host') or '',
            idle and found['OS-EXT-STS:vm_state'] == 'resized',
            idle,
        )

    def migrate(self, server: str) -> None:
        """Ask for a cold migration.

        :raises NoAnswer: if there is none; NotNow if it cannot be moved now
        :raises Refused: if it cannot be moved
        """
        self._act(server, {'migrate': None})

    def confirm(self, server: str) -> None:
        """Confirm the move of a server.

        :raises NoAnswer: if that cannot be done now
        :raises Refused: if Nova does not do it
        """
        self._act(server, {'confirmResize': None})

    def _act(self, server: str, body: dict[str, Any]) -> None:
        self._send('POST', f'/servers/{server}/action', json=body)

    def _send(self, method: str, path: str, **more: Any) -> Any:
        try:
            return self._client.request(
                path, method, microversion=_MICROVERSION,
                headers={'Accept': 'application/json'}, **more,
            )  # fmt: skip
        except (ks_exc.BadRequest, ks_exc.Forbidden) as err:
            raise Refused(_describe(err)) from err
        except ks_exc.NotFound as err:
            # In Nova's words: a proxy without a backend may say 404, too.
            said = '' if err.response is None else err.response.text
            kind = Gone if 'itemNotFound' in said else NoAnswer
            raise kind(_describe(err)) from err
        except ks_exc.Conflict as err:
            raise NotNow(_describe(err)) from err
        except ks_exc.ClientException as err:
            raise NoAnswer(_describe(err)) from err


def check(conf: cfg.ConfigOpts) -> str | None:
    """Check that credentials are complete, if there are any.

    :returns: None if so, else the fault
    """
    try:
        NovaAPI.from_options(conf)
    except (ks_exc.ClientException, cfg.Error, ValueError) as err:
        return f'[nova_rt_nova]: {err}'
    return None


def _describe(err: Exception) -> str:
    """Say in one line that Nova has failed, with the words of its answer."""
    response = getattr(err, 'response', None)
    text = ''
    if response is not None:
        try:
            (found,) = response.json().values()
            text = str(found['message'])
        except (ValueError, AttributeError, KeyError, TypeError):
            text = ''
    text = text or str(err) or type(err).__name__
    return f'Nova: {" ".join(text.split())}'
