# SPDX-License-Identifier: Apache-2.0
"""Servers of ordinary flavors: as under nova-compute, beside RT servers."""

import fixtures
from lxml import etree
from nova import service
from nova.virt.libvirt import config

from nova_rt import record
from nova_rt.tests.functional import base


class PlainServerTest(base.RTServersTestBase):
    """One thing differs: a network namespace of its own."""

    def setUp(self):
        super().setUp()
        self.start_compute()
        self.flavor = self._create_flavor(memory_mb=64, vcpu=2)

    def use_stock_compute(self):
        # It would change the owners of every file, if it could.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.privsep.idmapshift.shift', lambda *args: None
            )
        )
        managers = dict(service.SERVICE_MANAGERS)
        managers['nova-compute'] = 'nova.compute.manager.ComputeManager'
        self.useFixture(
            fixtures.MonkeyPatch('nova.service.SERVICE_MANAGERS', managers)
        )
        self.flags(compute_driver='libvirt.LibvirtDriver')
        self.restart_compute_service('compute1')

    def definition(self, server):
        """The domain's XML, less the time at which it was made."""
        tree = etree.fromstring(self.guest(server).get_xml_desc())
        for made in tree.iter(f'{{{config.NOVA_NS}}}creationTime'):
            made.text = None
        return tree

    def test_domain_is_the_same_but_for_privnet(self):
        server = self.create(self.flavor)
        # After its first start, Nova writes what it chose into the domain.
        self._reboot_server(server, hard=True)
        ours = self.definition(server)
        self.use_stock_compute()
        self._reboot_server(server, hard=True)
        stock = self.definition(server)
        features = ours.find('features')
        privnet = features.find('privnet')
        self.assertIsNotNone(privnet)
        features.remove(privnet)
        if stock.find('features') is None:
            self.assertEqual(0, len(features))
            ours.remove(features)
        self.assertEqual(
            *(
                etree.canonicalize(
                    etree.tostring(tree, encoding='unicode'), strip_text=True
                )
                for tree in (stock, ours)
            )
        )

    def test_beside_a_real_time_server(self):
        rt = self.create(self.rt_flavor())
        plain = self.create(self.flavor)
        self.assert_held(rt)
        self.assertNotIn(record.KEY, self.instance(plain).system_metadata)
        self.assertEqual([rt['id']], list(self.claims()))
        self.assertEqual(0, self.allocated(plain))
        written = [
            path for path, _ in self.writes()
            if self.instance(plain).name in str(path)
        ]  # fmt: skip
        self.assertEqual([], written)
        self._reboot_server(plain, hard=True)
        self._reboot_server(plain)
        self._delete_server(plain)
        self.assert_held(rt)

    def test_real_time_servers_have_a_private_network_too(self):
        server = self.create(self.rt_flavor())
        self.assertIsNotNone(self.definition(server).find('features/privnet'))

    def test_cpuset_of_a_real_time_server(self):
        self.create(self.rt_flavor())
        server = self.create(self.rt_flavor(vcpus=2, reservation='100/1000'))
        vcpu = self.definition(server).find('vcpu')
        self.assertEqual(('2', '1-2'), (vcpu.text, vcpu.get('cpuset')))

    def test_suspend_is_left_to_nova(self):
        """Refused for RT servers only."""
        server = self.create(self.flavor)
        self.api.post_server_action(server['id'], {'suspend': None})
        self._wait_for_state_change(server, 'SUSPENDED')
