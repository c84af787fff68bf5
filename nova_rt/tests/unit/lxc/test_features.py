# SPDX-License-Identifier: Apache-2.0
"""The XML of features that Nova does not know."""

from nova_rt.lxc import features
from nova_rt.tests.unit.virt.libvirt import base


class CapabilitiesTest(base.TestBase):
    def test_xml(self):
        made = features.LibvirtConfigGuestFeatureCapabilities().to_xml()
        self.assertEqual(
            '<capabilities policy="default"><sys_resource state="off"/>'
            '</capabilities>',
            ''.join(line.strip() for line in made.splitlines()),
        )
