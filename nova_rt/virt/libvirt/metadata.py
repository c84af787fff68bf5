# SPDX-License-Identifier: Apache-2.0
"""The record of a reservation inside a libvirt domain.

A copy for those who see the domain and not the database. The service itself
compares it with the server's record, corrects it, and never acts on it.
"""

from typing import Any

import libvirt
from lxml import etree
from nova.virt.libvirt import config
from nova.virt.libvirt import guest as libvirt_guest
from oslo_log import log as logging

from nova_rt import exception
from nova_rt.reservation import record
from nova_rt.reservation.domain_record import (
    NAME,
    NAMESPACE,
    PREFIX,
    parse_domain,
)
from nova_rt.tracking import once

LOG = logging.getLogger(__name__)


class LibvirtConfigGuestMetaReservation(config.LibvirtConfigObject):
    """``<rt:reservation>`` with a record as its text."""

    def __init__(self, rec: record.Record) -> None:
        super().__init__(root_name=NAME, ns_prefix=PREFIX, ns_uri=NAMESPACE)
        self.record = rec

    def format_dom(self) -> Any:
        """Make the element.

        :returns: what belongs into the domain's XML
        """
        return self._text_node(self.root_name, self.record.encode())


def parse_record(guest: libvirt_guest.Guest) -> record.Record | None:
    """Read the record that a domain carries.

    :returns: None if it carries none
    :raises InvalidRecord: if it is broken
    """
    return parse_domain(guest.get_xml_desc())


def write_record(guest: libvirt_guest.Guest, rec: record.Record) -> None:
    """Replace the record that a domain carries, running or not.

    :raises libvirtError: if libvirt refuses
    """
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if guest.is_active():
        flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    # Nova's Guest.set_metadata() writes Nova's own element only. libvirt adds
    # the namespace, and refuses an element that has it already.
    element = etree.Element(NAME)
    element.text = rec.encode()
    guest._domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        etree.tostring(element, encoding='unicode'),
        PREFIX,
        NAMESPACE,
        flags,
    )


def find_difference(
    guest: libvirt_guest.Guest, rec: record.Record
) -> str | None:
    """Compare the record that a domain carries with the server's.

    What it says of a slot beside the one in force is no matter of the
    container: see :func:`carries`.

    :param rec: the server's record
    :returns: None if they are the same, else what differs, as a sentence
    """
    try:
        carried = parse_record(guest)
    except exception.InvalidRecord as err:
        return f'its domain carries no record: {err}'
    if carried is not None and carried.in_force == rec.in_force:
        return None
    text = 'none' if carried is None else carried.encode()
    return f'its domain carries the record {text} instead of {rec.encode()}'


def carries(guest: libvirt_guest.Guest, rec: record.Record) -> bool:
    """Look whether a domain carries exactly this record, both slots of it."""
    try:
        return parse_record(guest) == rec
    except exception.InvalidRecord:
        return False


def warn_of_unknown(guest: libvirt_guest.Guest, said: once.Once) -> None:
    """Report a container whose reservation nobody claims.

    It is left alone: what it should have cannot be known, and servers that
    were deleted are removed by Nova.

    :param said: of the checks before
    """
    try:
        rec = parse_record(guest)
        carried = None if rec is None else rec.encode()
    except exception.InvalidRecord as err:
        carried = str(err)
    if carried is not None and said.is_new(guest.uuid, carried):
        LOG.warning(
            'This container carries a reservation, but is no real-time server '
            'of this host: %s', carried, instance_uuid=guest.uuid,
        )  # fmt: skip
