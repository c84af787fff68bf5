# SPDX-License-Identifier: Apache-2.0
"""The record of a reservation inside a libvirt domain.

A copy of what the instance has, so that any start of the container can be
served without the database.
"""

from typing import Any

from lxml import etree
from nova.virt.libvirt import config
from nova.virt.libvirt import guest as libvirt_guest

from nova_rt import record

#: Identifies our element in ``<metadata>``; a name, not an address.
NAMESPACE = 'urn:nova-rt:reservation:1'

_TAG = f'{{{NAMESPACE}}}reservation'


class LibvirtConfigGuestMetaReservation(config.LibvirtConfigObject):
    """``<rt:reservation>`` with a record as its text."""

    def __init__(self, rec: record.Record) -> None:
        super().__init__(
            root_name='reservation', ns_prefix='rt', ns_uri=NAMESPACE
        )
        self.record = rec

    def format_dom(self) -> Any:
        """The element, for the domain's XML."""
        return self._text_node(self.root_name, self.record.encode())


def parse_record(guest: libvirt_guest.Guest) -> record.Record | None:
    """The record that a domain carries.

    :returns: None if it carries none: it is not real-time
    :raises InvalidRecord: if it is broken
    """
    tree = etree.fromstring(guest.get_xml_desc())
    element = tree.find(f'metadata/{_TAG}')
    return (
        None if element is None else record.Record.decode(element.text or '')
    )
