# SPDX-License-Identifier: Apache-2.0
"""The message buses of hosts, by Nova's mapping of hosts to cells."""

from nova import exception as nova_exception
from nova import objects, rpc

from nova_rt.cloud import nova_db


def find(host: str) -> str:
    """Find the message bus of a host's cell.

    :returns: its URL, for oslo.messaging
    :raises Unreadable: if the host is in no cell, or the API database does not
        answer or is not configured
    """
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
