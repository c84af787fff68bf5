# SPDX-License-Identifier: Apache-2.0
"""A client of nova-rt-api, with the token of one user."""

import json
from typing import Any

from tempest import config
from tempest.lib.common import rest_client

CONF = config.CONF


class ReservationsClient(rest_client.RestClient):
    """The calls of nova-rt-api.

    :param clients: the clients of the user, ``os_admin`` say
    """

    def __init__(self, clients: Any) -> None:
        super().__init__(
            clients.auth_provider,
            'rt',
            CONF.identity.region,
            ca_certs=CONF.identity.ca_certificates_file,
            disable_ssl_certificate_validation=(
                CONF.identity.disable_ssl_certificate_validation
            ),
        )

    def _send(
        self, status: int, method: str, path: str, *more: Any, **words: Any
    ) -> tuple[Any, Any]:
        response, body = self.request(method, path, *more, **words)
        self.expected_success(status, response.status)
        return response, json.loads(body)

    def show(self, server: str, version: str = '1.0') -> tuple[Any, Any]:
        """Show the reservation of a server.

        :param version: the microversion
        :returns: the headers of the answer, and the reservation
        """
        headers = self.get_headers()
        headers['OpenStack-API-Version'] = f'rt {version}'
        response, body = self._send(
            200, 'GET', f'v1/servers/{server}/reservation', headers=headers
        )
        return response, body['reservation']

    def set(
        self,
        server: str,
        reservation: str,
        etag: str | None = None,
        **options: str,
    ) -> Any:
        """Change the reservation of a server.

        :param reservation: runtime and period
        :param etag: refuse the change if the present ETag is another
        :param options: ``on_no_room``
        :returns: the reservation
        """
        headers = self.get_headers()
        if etag is not None:
            headers['If-Match'] = etag
        runtime_us, period_us = map(int, reservation.split('/'))
        wish = {'runtime_us': runtime_us, 'period_us': period_us}
        _, body = self._send(
            202,
            'PUT',
            f'v1/servers/{server}/reservation',
            headers=headers,
            body=json.dumps({'reservation': wish | options}),
        )
        return body['reservation']

    def read(self, path: str) -> Any:
        """Read something else.

        :param path: below ``v1``
        :returns: the body
        """
        return self._send(200, 'GET', f'v1/{path}')[1]
