# SPDX-License-Identifier: Apache-2.0
"""The disk holds the IDs of the container; hosts must map them."""

from nova import exception, objects
from oslo_utils.fixture import uuidsentinel as uuids
from oslotest import base

from nova_rt.host import owners
from nova_rt.lxc import disk_owners


class OwnersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(uuid=uuids.server, system_metadata={})

    def start(self, mapped):
        disk_owners.note(self.instance, mapped)

    def check(self, mapped=True):
        disk_owners.check(self.instance, mapped)

    def assert_refused(self):
        self.assertRaises(exception.ComputeResourcesUnavailable, self.check)

    def test_a_range_everywhere(self):
        self.start(mapped=True)
        self.check()

    def test_everybody(self):
        self.start(mapped=True)
        self.check(mapped=False)

    def test_none_before(self):
        self.start(mapped=False)
        self.assert_refused()

    def test_what_it_had_once(self):
        """On a host between, its users may have made files."""
        self.start(mapped=True)
        self.start(mapped=False)
        self.start(mapped=True)
        self.assert_refused()

    def test_under_an_earlier_release(self):
        """An earlier release mapped what the operator wrote."""
        for text, refused in (
            ('0-65535;0-65535', False),
            ('0-999;0-999', False),
            ('0-65536;0-65535', True),
            ('0-65535;0-65535,70000-70009', True),
        ):
            with self.subTest(text):
                self.instance.system_metadata[owners.KEY] = text
                self.start(mapped=True)
                if refused:
                    self.assert_refused()
                else:
                    self.check()

    def test_older_nova_rt(self):
        self.check()
        self.instance.system_metadata[owners.KEY] = 'what is this'
        self.check()
