# SPDX-License-Identifier: Apache-2.0
"""The place of a reservation's record in a libvirt domain.

For those who write it with Nova (:mod:`nova_rt.virt.libvirt.metadata`) and
those who read it without.
"""

from xml.etree import ElementTree

from nova_rt import exception
from nova_rt.reservation import record

#: Identifies our element in ``<metadata>``; a name, not an address.
NAMESPACE = 'urn:nova-rt:reservation:1'

PREFIX = 'rt'
NAME = 'reservation'

_TAG = f'{{{NAMESPACE}}}{NAME}'


def parse_domain(xml: str) -> record.Record | None:
    """Read the record in the XML of a domain.

    :param xml: as libvirt describes the domain
    :returns: None if it carries none
    :raises InvalidRecord: if it is broken
    """
    # What libvirt itself has written, without entities.
    element = ElementTree.fromstring(xml).find(f'metadata/{_TAG}')  # noqa: S314
    return (
        None if element is None else record.Record.decode(element.text or '')
    )


def parse_element(xml: str) -> record.Record:
    """Read the record in our element, as libvirt hands it out by itself.

    :returns: the record
    :raises InvalidRecord: if it is broken
    """
    try:
        element = ElementTree.fromstring(xml)  # noqa: S314
    except ElementTree.ParseError as err:
        raise exception.InvalidRecord(f'no element of XML: {err}') from err
    return record.Record.decode(element.text or '')
