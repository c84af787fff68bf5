# SPDX-License-Identifier: Apache-2.0
"""The record of a reservation inside a libvirt domain.

It is a copy for programs that read the domain and not the database. The
service itself compares it with the server's record, corrects it, and never
acts on it.
"""

from typing import Any

import libvirt
from lxml import etree
from nova.virt.libvirt import config
from nova.virt.libvirt import guest as libvirt_guest
from oslo_log import log as logging

from nova_rt import exception, once
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import (
    BESIDE,
    NAME,
    NAMESPACE,
    PREFIX,
    DomainRecord,
    parse_domain,
)

LOG = logging.getLogger(__name__)


class LibvirtConfigGuestMetaReservation(config.LibvirtConfigObject):
    """The element ``<rt:reservation>``, with a record as its text."""

    def __init__(self, carried: DomainRecord) -> None:
        super().__init__(root_name=NAME, ns_prefix=PREFIX, ns_uri=NAMESPACE)
        self.carried = carried

    def format_dom(self) -> Any:
        """Make the element.

        :returns: an element for the domain's XML
        """
        return _fill(self._new_node(self.root_name), self.carried)


def _fill(element: Any, carried: DomainRecord) -> Any:
    element.text = carried.record.encode()
    if carried.beside is not None:
        element.set(BESIDE, carried.beside.encode())
    return element


def parse_record(guest: libvirt_guest.Guest) -> DomainRecord | None:
    """Read the records in a domain.

    :returns: None if it has none
    :raises InvalidRecord: if one is broken
    """
    return parse_domain(guest.get_xml_desc())


def write_record(guest: libvirt_guest.Guest, carried: DomainRecord) -> None:
    """Replace the records in a domain, running or not.

    :raises libvirtError: if libvirt refuses
    """
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if guest.is_active():
        flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    # Nova's Guest.set_metadata() writes Nova's own element only. libvirt adds
    # the namespace, and refuses an element that has it already.
    guest._domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        etree.tostring(
            _fill(etree.Element(NAME), carried), encoding='unicode'
        ),
        PREFIX,
        NAMESPACE,
        flags,
    )


def find_difference(
    guest: libvirt_guest.Guest, rec: record.Record
) -> str | None:
    """Compare the record in a domain with the server's.

    The second record does not concern the running container and is ignored:
    see :func:`carries`.

    :param rec: the server's record
    :returns: None if they are the same, else the difference as a sentence
    """
    try:
        carried = parse_record(guest)
    except exception.InvalidRecord as err:
        return f'its domain carries no record: {err}'
    if carried is not None and _is_same(carried.record, rec):
        return None
    text = 'none' if carried is None else carried.record.encode()
    return f'its domain carries the record {text} instead of {rec.encode()}'


def _is_same(carried: record.Record, rec: record.Record) -> bool:
    """Compare two records, without a runtime that follows the load.

    A record is saved before its copy in the domain.
    """
    reservation = rec.request.reservation
    if rec.request.follows_load and (
        carried.request.reservation.period_us == reservation.period_us
    ):
        carried = carried.with_runtime(reservation.runtime_us)
    return carried == rec


def carries(guest: libvirt_guest.Guest, wanted: DomainRecord) -> bool:
    """Tell whether a domain has exactly these records."""
    try:
        return parse_record(guest) == wanted
    except exception.InvalidRecord:
        return False


def warn_of_unknown(guest: libvirt_guest.Guest, said: once.Once) -> None:
    """Report a container with a reservation that no server claims.

    It is left alone: its proper reservation is unknown, and Nova removes
    deleted servers.

    :param said: the reports of earlier checks
    """
    try:
        found = parse_record(guest)
        carried = None if found is None else found.record.encode()
    except exception.InvalidRecord as err:
        carried = str(err)
    if carried is not None and said.is_new(guest.uuid, carried):
        LOG.warning(
            'This container carries a reservation, but is no real-time server '
            'of this host: %s', carried, instance_uuid=guest.uuid,
        )  # fmt: skip
