# SPDX-License-Identifier: Apache-2.0
"""The place of a reservation's record in a libvirt domain.

Shared by the writer with Nova (:mod:`nova_rt.virt.libvirt.metadata`) and the
readers without it. During a resize on one host, the server holds a second
record there, which is an attribute: the sum of a host's bandwidth needs both.
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


#: The attribute with the second record.
BESIDE = 'beside'


@dataclasses.dataclass(frozen=True)
class DomainRecord:
    """The records in a domain.

    :ivar record: in force whenever the container runs
    :ivar beside: held in addition, for a move
    """

    record: Record
    beside: Record | None = None

    @property
    def claims(self) -> tuple[Record, ...]:
        """The records of both slots, or the only one."""
        return (self.record, *((self.beside,) if self.beside else ()))


def parse_domain(xml: str) -> DomainRecord | None:
    """Read the records in the XML of a domain.

    :param xml: libvirt's description of the domain
    :returns: None if it has none
    :raises InvalidRecord: if one is broken
    """
    # Written by libvirt itself, without entities.
    element = ElementTree.fromstring(xml).find(f'metadata/{_TAG}')  # noqa: S314
    return None if element is None else _parse(element)


def parse_element(xml: str) -> DomainRecord:
    """Read the records in our element, as libvirt returns it alone.

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
