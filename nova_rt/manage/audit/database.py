# SPDX-License-Identifier: Apache-2.0
"""The reservations according to the database of nova_rt."""

from collections.abc import Mapping
import datetime

from oslo_config import cfg

from nova_rt import exception
from nova_rt.manage import stored
from nova_rt.manage.audit.picture import Row
from nova_rt.reservation.admission import Capacity

_BY = 'nova-rt-manage audit'
_WHY = 'the server is no real-time server of this host any more'


class Database:
    """The database of nova_rt; :meth:`open` makes it."""

    @classmethod
    def open(cls, conf: cfg.ConfigOpts) -> 'Database | None':
        """Connect, where it is configured.

        :returns: None where it is not
        """
        return cls() if stored.connect(conf) else None

    def list_hosts(self) -> set[str]:
        """List the hosts where servers hold something.

        :returns: their names
        :raises Unreadable: if it does not answer
        """
        from nova_rt.db import api

        with stored.errors():
            return {server.host for server in api.list_servers()}

    def read_rows(self, host: str) -> dict[str, Row]:
        """Read what servers hold on a host.

        :returns: by UUID
        :raises Unreadable: if it does not answer
        """
        from nova_rt.db import api

        with stored.errors():
            return {
                server.uuid: Row(server.specs, server.cpus)
                for server in api.list_servers(host)
            }

    def read_capacity(self, host: str) -> Capacity | None:
        """Read what a host has reported that its CPUs can promise.

        :returns: None if it has not reported
        :raises Unreadable: if it does not answer
        """
        from nova_rt.db import api

        with stored.errors():
            try:
                found = api.get_host(host)
            except exception.HostNotFound:
                return None
        cpus: Mapping[int, int] = {
            cpu: each.capacity_ppm for cpu, each in found.cpus.items()
        }
        return Capacity(cpus, found.host_ppm)

    def release(self, uuid: str, host: str) -> bool:
        """Note that a server holds nothing on a host.

        :returns: whether it did until now
        :raises Unreadable: if it does not answer
        """
        from nova_rt.db.release import release

        now = datetime.datetime.now(datetime.UTC)
        with stored.errors():
            return release(uuid, host, now, _BY, _WHY)
