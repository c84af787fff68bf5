# SPDX-License-Identifier: Apache-2.0
"""The place of a reservation's record in a libvirt domain.

For those who write it with Nova (:mod:`nova_rt.virt.libvirt.metadata`) and
those who read it without. During a resize on one host, the server holds a
second record there, which is an attribute: who adds up what is held on a host
needs both.
"""

import dataclasses
from xml.etree import ElementTree

from nova_rt import exception
from nova_rt.reservation.record import Record

#: Identifies our element in ``<metadata>``; a name, not an address.
NAMESPACE = 'urn:nova-rt:reservation:1'

PREFIX = 'rt'
NAME = 'reservation'

_TAG = f'{{{NAMESPACE}}}{NAME}'


#: The attribute that has the second record.
BESIDE = 'beside'


@dataclasses.dataclass(frozen=True)
class DomainRecord:
    """The records that a domain carries.

    :ivar record: in force whenever the container runs
    :ivar beside: held in addition, for a move
    """

    record: Record
    beside: Record | None = None

    @property
    def claims(self) -> tuple[Record, ...]:
        """Both, as far as there are two."""
        return (self.record, *((self.beside,) if self.beside else ()))


def parse_domain(xml: str) -> DomainRecord | None:
    """Read the records in the XML of a domain.

    :param xml: as libvirt describes the domain
    :returns: None if it carries none
    :raises InvalidRecord: if one is broken
    """
    # What libvirt itself has written, without entities.
    element = ElementTree.fromstring(xml).find(f'metadata/{_TAG}')  # noqa: S314
    return None if element is None else _parse(element)


def parse_element(xml: str) -> DomainRecord:
    """Read the records in our element, as libvirt hands it out by itself.

    :returns: the records
    :raises InvalidRecord: if one is broken
    """
    try:
        element = ElementTree.fromstring(xml)  # noqa: S314
    except ElementTree.ParseError as err:
        raise exception.InvalidRecord(f'no element of XML: {err}') from err
    return _parse(element)


def _parse(element: ElementTree.Element) -> DomainRecord:
    decode = Record.decode
    beside = element.get(BESIDE)
    return DomainRecord(
        decode(element.text or ''), None if beside is None else decode(beside)
    )
