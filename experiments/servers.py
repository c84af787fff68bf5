# SPDX-License-Identifier: Apache-2.0
"""Servers of an experiment in the lab's cloud."""

from collections.abc import Mapping
import subprocess
import sys
import time
from typing import Any

from openstack.connection import Connection

from lab import catalog, paths

# A node without KVM takes its time, above all with an image that it has not.
_ACTIVE_S = 1200
_GONE_S = 300


def again(module: str) -> int:
    """Run the same command inside the lab's network.

    :param module: module of this command
    :returns: its exit code
    """
    python = sys.executable
    words = [python, '-m', module, *sys.argv[1:]]
    return subprocess.run(
        [python, '-m', 'lab', 'exec', *words],
        cwd=paths.CHECKOUT, check=False,
    ).returncode  # fmt: skip


class Servers:
    """Servers of one experiment.

    :param prefix: prefix of their names
    :param image: ID of their image
    """

    def __init__(
        self, connection: Connection, prefix: str, image: str
    ) -> None:
        self._cloud, self._prefix, self._image = connection, prefix, image
        self._all: list[tuple[Any, Any]] = []

    def boot(
        self,
        name: str,
        reservation: str = '',
        network: bool = False,
        specs: Mapping[str, str] | None = None,
        ram_mb: int = 256,
    ) -> Any:
        """Boot a server with one vCPU and wait for it.

        :param reservation: extra spec of its flavor; empty for none
        :param specs: further extra specs of one with a reservation
        """
        compute = self._cloud.compute
        flavor = compute.create_flavor(
            name=f'{self._prefix}-{name}-{time.monotonic_ns()}', vcpus=1,
            ram=ram_mb, disk=2,
        )  # fmt: skip
        if reservation:
            compute.create_flavor_extra_specs(
                flavor,
                {'rt:reservation': reservation, 'rt:enforcement': 'limit'}
                | dict(specs or {}),
            )
        networks: Any = 'none'
        if network:
            found = self._cloud.network.find_network(
                catalog.NETWORK, ignore_missing=False
            )
            networks = [{'uuid': found.id}]
        server = compute.create_server(
            name=f'{self._prefix}-{name}', image_id=self._image,
            flavor_id=flavor.id, networks=networks,
        )  # fmt: skip
        self._all.append((server, flavor))
        return compute.wait_for_server(server, wait=_ACTIVE_S)

    def delete(self, only: Any = None) -> None:
        """Delete a server, or all of them, and their flavors."""
        for pair in list(self._all):
            server, flavor = pair
            if only and server.id != only.id:
                continue
            self._cloud.compute.delete_server(server, ignore_missing=True)
            self._cloud.compute.wait_for_delete(server, wait=_GONE_S)
            self._cloud.compute.delete_flavor(flavor)
            self._all.remove(pair)


def address(server: Any) -> str:
    """The only address of a server."""
    (addresses,) = server.addresses.values()
    return str(addresses[0]['addr'])
