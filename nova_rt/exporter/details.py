# SPDX-License-Identifier: Apache-2.0
"""Texts about a server that Nova has written into its libvirt domain."""

import dataclasses
from typing import Self
from xml.etree import ElementTree

#: Of Nova's element in ``<metadata>`` (nova/virt/libvirt/config.py,
#: LibvirtConfigGuestMetaNovaInstance).
NAMESPACE = 'http://openstack.org/xmlns/libvirt/nova/1.1'

#: Characters of a label. Names in Nova have up to 255.
_LONGEST = 255


@dataclasses.dataclass(frozen=True)
class Details:
    """Texts about a server; '' for one that is missing.

    Users choose the name, administrators that of the flavor. A name that is
    changed later stands there after the next hard reboot.

    :ivar project: UUID of its project
    :ivar flavor: name of its flavor
    :ivar name: its own
    """

    project: str
    flavor: str
    name: str

    @classmethod
    def parse(cls, xml: str) -> Self:
        """Read the element of Nova.

        :param xml: as libvirt hands out the element by itself
        :returns: its texts
        :raises ValueError: if it is no XML
        """
        try:
            # What Nova and libvirt have written, without entities.
            element = ElementTree.fromstring(xml)  # noqa: S314
        except ElementTree.ParseError as err:
            raise ValueError(f'no element of XML: {err}') from err

        def find(path: str) -> ElementTree.Element:
            # libvirt hands out elements without their namespace.
            found = element.find(path)
            return ElementTree.Element('none') if found is None else found

        return cls(
            find('{*}owner/{*}project').get('uuid', '')[:_LONGEST],
            find('{*}flavor').get('name', '')[:_LONGEST],
            (find('{*}name').text or '')[:_LONGEST],
        )
