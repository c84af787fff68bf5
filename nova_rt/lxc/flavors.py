# SPDX-License-Identifier: Apache-2.0
"""A server's flavor, read from Nova's metadata in its domain."""

from lxml import etree
from nova.virt.libvirt import config
from nova.virt.libvirt import guest as libvirt_guest

from nova_rt import exception, task_limit

_SPECS = (
    f'metadata/{{{config.NOVA_NS}}}instance/{{{config.NOVA_NS}}}flavor/'
    f'{{{config.NOVA_NS}}}extraSpecs/{{{config.NOVA_NS}}}extraSpec'
)


def read_specs(guest: libvirt_guest.Guest) -> dict[str, str]:
    """Read the extra specs of a server's flavor.

    :returns: none for a domain that was defined by a Nova before 2025.1,
        which does not write them
    :raises libvirtError: if libvirt fails
    """
    tree = etree.fromstring(guest.get_xml_desc())
    return {
        element.get('name', ''): element.text or ''
        for element in tree.iterfind(_SPECS)
    }


def read_max_tasks(guest: libvirt_guest.Guest, default: int) -> int:
    """Read the limit of a server's tasks.

    :param default: the limit for a flavor without one
    :returns: 0 for no limit
    :raises HostNotPrepared: if the limit in the flavor is invalid
    :raises libvirtError: if libvirt fails
    """
    try:
        return task_limit.choose(read_specs(guest), default)
    except exception.InvalidRequest as err:
        raise exception.HostNotPrepared(str(err)) from err
