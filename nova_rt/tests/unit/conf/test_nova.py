# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conf.nova."""

import nova.conf
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt.conf import nova as nova_conf

_SHARED = '[compute] cpu_shared_set'
_DEDICATED = '[compute] cpu_dedicated_set'


class CPUsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()

    def read(self, **values):
        flags = self.useFixture(config.Config(self.conf)).config
        nova_conf.read_cpus(self.conf)
        for name, value in values.items():
            group = 'libvirt' if name == 'cpu_power_management' else 'compute'
            flags(group=group, **{name: value})
        return nova_conf.read_cpus(self.conf)

    def test_unset(self):
        self.assertEqual({}, self.read())
        self.assertEqual({}, self.read(cpu_power_management=True))

    def test_set(self):
        self.assertEqual(
            {_SHARED: '0-1,^1', _DEDICATED: '2'},
            self.read(cpu_shared_set='0-1,^1', cpu_dedicated_set='2'),
        )

    def test_power_management(self):
        found = self.read(
            cpu_shared_set='0', cpu_dedicated_set='1',
            cpu_power_management=True,
        )  # fmt: skip
        shared, dedicated = found
        self.assertEqual(_SHARED, shared)
        self.assertIn(_DEDICATED, dedicated)
        self.assertIn('[libvirt] cpu_power_management', dedicated)
        self.assertEqual(['0', '1'], list(found.values()))

    def test_where_nova_is(self):
        """Its own options are read, not registered again."""
        self.conf = nova.conf.CONF
        self.assertEqual({_SHARED: '3'}, self.read(cpu_shared_set='3'))

    def test_names_are_those_of_nova(self):
        for group, names in (
            ('compute', ['cpu_shared_set', 'cpu_dedicated_set']),
            ('libvirt', ['cpu_power_management']),
        ):
            for name in names:
                self.assertIn(name, nova.conf.CONF[group])
