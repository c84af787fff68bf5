# SPDX-License-Identifier: Apache-2.0
"""The containers of this host according to libvirt and the kernel."""

from collections.abc import Mapping
from typing import Any, Self

import libvirt
from nova.virt.libvirt import guest as libvirt_guest
from oslo_config import cfg

from nova_rt import exception
from nova_rt.cmd.nova_db import Unreadable
from nova_rt.conf import nova as nova_conf
from nova_rt.host.host import Host
from nova_rt.host.options import Options
from nova_rt.manage.audit.picture import LocalContainer, NovaServer
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.record import Record
from nova_rt.virt.libvirt import metadata


class Local:
    """This host; it is only read.

    :param host: has looked at the kernel
    :param connection: to libvirt, for reading
    """

    def __init__(self, host: Host, connection: Any) -> None:
        self._host = host
        self._connection = connection

    @classmethod
    def open(cls, conf: cfg.ConfigOpts) -> Self:
        """Connect to libvirt and look at the kernel.

        :returns: this host
        :raises Unreadable: if one of them does not answer
        """
        # It would print each error to stderr as well.
        libvirt.registerErrorHandler(lambda context, error: None, None)
        host = Host.from_options(
            Options.from_group(conf.nova_rt, nova_conf.read_cpus(conf))
        )
        try:
            host.look()
            return cls(
                host,
                libvirt.openReadOnly(conf.libvirt.connection_uri or 'lxc:///'),
            )
        except (exception.HostError, OSError) as err:
            raise Unreadable(f'the kernel of this host: {err}') from err
        except libvirt.libvirtError as err:
            raise Unreadable(f'libvirt: {err}') from err

    def read_capacity(self) -> Capacity:
        """Read what each CPU can promise."""
        return self._host.capacity()

    def read(
        self, servers: Mapping[str, NovaServer]
    ) -> dict[str, LocalContainer]:
        """Read every container.

        :param servers: the real-time servers of this host, by UUID
        :returns: by UUID
        :raises Unreadable: if libvirt does not answer
        """
        try:
            return {
                domain.UUIDString(): self._read(
                    domain, servers.get(domain.UUIDString())
                )
                for domain in self._connection.listAllDomains(
                    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
                    | libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE
                )
            }
        except libvirt.libvirtError as err:
            raise Unreadable(f'libvirt: {err}') from err

    def _read(self, domain: Any, server: NovaServer | None) -> LocalContainer:
        guest = libvirt_guest.Guest(domain)
        carried: Record | str | None
        try:
            found = metadata.parse_record(guest)
            carried = None if found is None else found.record
        except exception.InvalidRecord as err:
            carried = str(err)
        difference = None
        if server is not None and isinstance(server.record, Record):
            if guest.is_active():
                difference = self._host.check(guest.id, server.record)
                if difference is not None and not guest.is_active():
                    # It has ended meanwhile.
                    difference = None
        return LocalContainer(carried, difference)
