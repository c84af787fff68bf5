# SPDX-License-Identifier: Apache-2.0
"""Makes Nova's fake libvirt behave like libvirt-lxc.

A domain that starts becomes a container in the fake kernel of its host: with
a process, control groups and CPUs, and with no reservation at first.
"""

import itertools
import os

import fixtures
import libvirt
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt

from nova_rt.reservation import cpulist

_PIDS = itertools.count(20000)


class Containers(fixtures.Fixture):
    """Patches the fake libvirt.

    :ivar kernels: host name -> its fake kernel; filled by the test
    :ivar started: names of domains, one for each start, in order
    :ivar lost: number of starts, from the next one on, after which libvirtd
        does not know the first process
    """

    def __init__(self):
        self.kernels = {}
        self.started = []
        self.lost = 0
        self._unknown = set()

    def _open_namespaces(self, domain, flags):
        """Do as libvirt_lxc does, and return files to be closed."""
        if domain._id in self._unknown:
            raise fakelibvirt.make_libvirtError(
                libvirt.libvirtError,
                'Init pid is not yet available',
                error_code=libvirt.VIR_ERR_OPERATION_INVALID,
            )
        return [os.open('/dev/null', os.O_RDONLY) for _ in range(2)]

    def _setUp(self):
        this = self
        domain = fakelibvirt.Domain

        def init(dom, connection, xml, running=False, transient=False):
            # Nova's fake keeps of a definition only what Nova looks at.
            dom.raw_xml = xml
            original_init(dom, connection, xml, running, transient)
            dom._id = -1

        def start(dom, flags):
            original_start(dom, flags)
            dom._id = next(_PIDS)
            if this.lost:
                this.lost -= 1
                this._unknown.add(dom._id)
            tree = etree.fromstring(dom.raw_xml)
            cpus = cpulist.parse(tree.find('vcpu').get('cpuset', ''))
            kernel = this.kernels[dom._connection.hostname]
            kernel.add_container(dom._id, dom.name(), cpus or None)
            this.started.append(dom.name())

        def set_metadata(dom, kind, metadata, key, uri, flags=0):
            tree = etree.fromstring(dom.raw_xml)
            parent = tree.find('metadata')
            for element in parent.findall(f'{{{uri}}}*'):
                parent.remove(element)
            new = etree.fromstring(metadata)
            element = etree.SubElement(
                parent, f'{{{uri}}}{new.tag}', nsmap={key: uri}
            )
            element.text = new.text
            dom.raw_xml = etree.tostring(tree, encoding='unicode')

        def stopper(original):
            def stop(dom):
                kernel = this.kernels[dom._connection.hostname]
                if dom._id != -1:
                    kernel.remove_container(dom._id)
                original(dom)

            return stop

        # That Nova's modules and ours catch the same errors.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.tests.fixtures.libvirt.libvirtError',
                libvirt.libvirtError,
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'libvirt_lxc.lxcOpenNamespace', self._open_namespaces
            )
        )
        original_init = domain.__init__
        original_start = domain.createWithFlags
        for name, replacement in (
            ('__init__', init),
            ('createWithFlags', start),
            ('destroy', stopper(domain.destroy)),
            ('shutdown', stopper(domain.shutdown)),
            ('setMetadata', set_metadata),
            ('XMLDesc', lambda dom, flags=0: dom.raw_xml),
            ('isActive', lambda dom: int(dom._id != -1)),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova.tests.fixtures.libvirt.Domain.{name}', replacement
                )
            )
