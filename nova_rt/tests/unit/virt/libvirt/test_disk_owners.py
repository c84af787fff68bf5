# SPDX-License-Identifier: Apache-2.0
"""The disk holds the IDs of the container; hosts must map them."""

from nova import exception, objects
from oslo_utils.fixture import uuidsentinel as uuids
from oslotest import base

from nova_rt.host import idmaps, owners
from nova_rt.virt.libvirt import disk_owners


class OwnersTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.instance = objects.Instance(uuid=uuids.server, system_metadata={})
        self.maps = None

    def start(self, count):
        self.map(count)
        disk_owners.note(self.instance, self.maps)

    def map(self, count):
        maps = ((0, 100000, count),)
        self.maps = count and idmaps.IDMaps(maps, maps)

    def check(self):
        disk_owners.check(self.instance, self.maps)

    def assert_refused(self):
        self.assertRaises(exception.ComputeResourcesUnavailable, self.check)

    def test_same_maps(self):
        self.start(65536)
        self.check()

    def test_more(self):
        self.start(65536)
        self.map(65537)
        self.check()
        self.map(None)
        self.check()

    def test_fewer(self):
        self.start(65536)
        self.map(65535)
        self.assert_refused()

    def test_none_before(self):
        self.start(None)
        self.map(65536)
        self.assert_refused()

    def test_what_it_had_once(self):
        """On a host between, its users may have made files."""
        self.start(65536)
        self.start(131072)
        self.start(65536)
        self.map(65536)
        self.assert_refused()

    def test_older_nova_rt(self):
        self.check()
        self.instance.system_metadata[owners.KEY] = 'what is this'
        self.check()
