# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.metrics.listening."""

import pathlib

import ddt
import fixtures
from oslo_config import cfg
from oslotest import base

import nova_rt.conf
from nova_rt.metrics import listening

_GROUPS = {'nova_rt_exporter': '', 'nova_rt_conductor': 'metrics_'}


@ddt.ddt
class ListeningTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def read(self, group='nova_rt_exporter', **values):
        conf = cfg.ConfigOpts()
        nova_rt.conf.register_opts(conf)
        conf([], default_config_files=[])
        for name, value in values.items():
            conf.set_override(_GROUPS[group] + name, value, group)
        return listening.read(conf, group, 'x', _GROUPS[group])

    def refusal(self, **values):
        return str(self.assertRaises(OSError, self.read, **values))

    @ddt.data(*_GROUPS)
    def test_default(self, group):
        found = self.read(group, port=7)
        self.assertEqual(('127.0.0.1', 7), (found.address, found.port))
        self.assertIsNone(found.tls)

    @ddt.data('tls_key_file', 'tls_client_ca_file')
    def test_no_plain_text_if_tls_was_wanted(self, name):
        self.assertIn('require tls_cert_file', self.refusal(**{name: '/x'}))
