# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.audit.local, on libvirt's own test driver."""

import libvirt
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import nova_db
from nova_rt.host.host import Host
from nova_rt.host.options import Options
from nova_rt.manage.audit import local
from nova_rt.manage.audit.picture import LocalContainer, NovaServer
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import kernel

RECORD = Record(Request(Reservation(600, 1000), 1), (0,))
# Every connection to the test driver has this domain, running.
DOMAIN = '6695eb01-f6a4-8304-79aa-97f2502e193f'


class LocalTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.conf.register_opts(
            [cfg.StrOpt('connection_uri', default='test:///default')],
            group='libvirt',
        )
        self.flags = self.useFixture(config.Config(self.conf)).config
        self.kernel = self.useFixture(kernel.make('v2-rt-max-cpu', cpus=2))
        options = Options.from_group(self.conf.nova_rt, {})
        Host.from_options(options, self.kernel.files).start()
        self.kernel.writes.clear()
        self.patch(
            local.Host, 'from_options',
            lambda options: Host(
                cpu_set=None, smt=False, reserved_ppm=0, partition=None,
                files=self.kernel.files,
            ),
        )  # fmt: skip

    def test_read(self):
        found = local.Local.open(self.conf)
        self.assertEqual({DOMAIN: LocalContainer(None)}, found.read({}))
        self.assertEqual(2, len(found.read_capacity().cpus))

    def test_running_without_what_it_should_have(self):
        """The kernel knows no such container."""
        servers = {DOMAIN: NovaServer(RECORD.request, RECORD)}
        found = local.Local.open(self.conf).read(servers)
        self.assertIsNone(found[DOMAIN].carried)
        self.assertIn('600/1000 us', found[DOMAIN].difference)

    def test_changes_nothing(self):
        """Not even if it wanted to."""
        found = local.Local.open(self.conf)
        found.read({DOMAIN: NovaServer(RECORD.request, RECORD)})
        self.assertEqual([], self.kernel.writes)
        (domain,) = found._connection.listAllDomains()
        self.assertRaises(libvirt.libvirtError, domain.destroy)

    def test_no_libvirt(self):
        self.flags(
            group='libvirt',
            connection_uri='lxc+unix:///system?socket=/nowhere/socket',
        )
        err = self.assertRaises(
            nova_db.Unreadable, local.Local.open, self.conf
        )
        self.assertIn('libvirt: ', str(err))

    def test_no_kernel(self):
        self.kernel = self.useFixture(kernel.make('none'))
        err = self.assertRaises(
            nova_db.Unreadable, local.Local.open, self.conf
        )
        self.assertIn('the kernel of this host: ', str(err))
