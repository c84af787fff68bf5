# SPDX-License-Identifier: Apache-2.0
"""Reads from libvirt which servers of this host have reservations.

It has a read-only connection, and none of the answers is kept: if libvirt
does not answer, this says so.
"""

from collections.abc import Callable, Iterator
import dataclasses
import threading
from typing import Any
import uuid

import libvirt

from nova_rt import exception
from nova_rt.exporter import details
from nova_rt.exporter.details import Details
from nova_rt.reservation import domain_record
from nova_rt.reservation.record import Record

#: Between the answer of libvirt and ours, a domain may go.
_NOT_OURS = (
    libvirt.VIR_ERR_NO_DOMAIN,
    libvirt.VIR_ERR_NO_DOMAIN_METADATA,
)


class Unreadable(Exception):
    """Libvirt has not answered; the text has its reaction."""


@dataclasses.dataclass(frozen=True)
class LibvirtServer:
    """A real-time server of this host.

    :ivar uuid: in the usual form
    :ivar record: the one in its domain; None if that cannot be read
    :ivar pid: its libvirt_lxc process; None if it does not run
    :ivar details: written by Nova; None if that is not read
    :ivar beside: held here in addition, for a move
    """

    uuid: str
    record: Record | None
    pid: int | None
    details: Details | None = None
    beside: Record | None = None


class Domains:
    """The domains of this host.

    :param uri: of the connection
    :param timeout_s: how long libvirt has for all that it is asked
    :param connect: makes a read-only connection
    :param details: whether to read Nova's details of servers
    """

    def __init__(
        self,
        uri: str,
        timeout_s: float,
        connect: Callable[[str], Any] = libvirt.openReadOnly,
        details: bool = False,
    ) -> None:
        self._uri = uri
        self._timeout_s = timeout_s
        self._connect = connect
        self._details = details
        self._connection: Any = None
        self._asking: threading.Thread | None = None
        # It would print each error besides raising it.
        libvirt.registerErrorHandler(lambda _, error: None, None)

    def read(self) -> list[LibvirtServer]:
        """Ask libvirt.

        :returns: all real-time servers, those that do not run included
        :raises Unreadable: if it does not answer, or not in time
        """
        # Nothing ends a call that hangs. It keeps one thread, and no more:
        # until it returns, libvirt is not asked again.
        if self._asking is not None and self._asking.is_alive():
            raise Unreadable('it has not answered the last question yet')
        found: list[list[LibvirtServer]] = []
        failed: list[Exception] = []

        def ask() -> None:
            try:
                found.append(list(self._list()))
            except (libvirt.libvirtError, ValueError) as err:
                self._connection = None
                failed.append(err)

        self._asking = threading.Thread(target=ask, daemon=True)
        self._asking.start()
        self._asking.join(self._timeout_s)
        if found:
            return found[0]
        if failed:
            raise Unreadable(str(failed[0]))
        raise Unreadable(f'no answer within {self._timeout_s} s')

    def _list(self) -> Iterator[LibvirtServer]:
        if self._connection is None or not self._connection.isAlive():
            self._connection = self._connect(self._uri)
        for domain in self._connection.listAllDomains():
            text = _read_element(domain, domain_record.NAMESPACE)
            if text is None:
                continue
            # Whatever it hands out: a label has nothing but a UUID.
            name = str(uuid.UUID(domain.UUIDString()))
            pid = domain.ID()
            found = _parse(text)
            yield LibvirtServer(
                name,
                found.record if found else None,
                pid if pid > 0 else None,
                _read_details(domain) if self._details else None,
                found.beside if found else None,
            )


def _read_element(domain: Any, namespace: str) -> str | None:
    """Read an element of the metadata of a domain.

    :returns: None if it has none, or is not there any more
    """
    try:
        text: str = domain.metadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, namespace
        )
    except libvirt.libvirtError as err:
        if err.get_error_code() not in _NOT_OURS:
            raise
        return None
    return text


def _read_details(domain: Any) -> Details | None:
    text = _read_element(domain, details.NAMESPACE)
    return None if text is None else Details.parse(text)


def _parse(text: str) -> domain_record.DomainRecord | None:
    try:
        return domain_record.parse_element(text)
    except exception.InvalidRecord:
        return None  # It is counted; nova-rt-compute logs and corrects it.
