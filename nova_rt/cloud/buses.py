# SPDX-License-Identifier: Apache-2.0
"""The message buses of hosts, by Nova's mapping of hosts to cells."""

import time

from nova import exception as nova_exception
from nova import objects, rpc

from nova_rt.cloud import nova_db

#: Seconds for which a bus is not looked up again: a host seldom changes its
#: cell, and each change of a reservation needs it.
_KEEP_S = 60


class Buses:
    """The message buses that one process has looked up."""

    def __init__(self) -> None:
        #: Host -> the time until which it is not looked up, and the URL.
        self._found: dict[str, tuple[float, str]] = {}

    def find(self, host: str) -> str:
        """Find the message bus of a host's cell.

        :returns: its URL, for oslo.messaging
        :raises Unreadable: if the host is in no cell, or the API database does
            not answer or is not configured
        """
        now_s = time.monotonic()
        until_s, url = self._found.get(host, (0.0, ''))
        if now_s >= until_s:
            url = _look_up(host)
            self._found[host] = now_s + _KEEP_S, url
        return url


def _look_up(host: str) -> str:
    with nova_db.errors():
        context = nova_db.connect()
        # Makes the option known that the URL may refer to.
        rpc.get_transport_url()
        try:
            mapping = objects.HostMapping.get_by_host(context, host)
        except nova_exception.HostMappingNotFound as err:
            raise nova_db.Unreadable(f'host {host} is in no cell') from err
        url: str = mapping.cell_mapping.transport_url
        return url
