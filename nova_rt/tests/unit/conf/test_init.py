# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conf."""

import pathlib
import subprocess
import sys

import ddt
import fixtures
from oslo_config import cfg
from oslotest import base

from nova_rt import exception
import nova_rt.conf
from nova_rt.conf import nova_api
from nova_rt.reservation import admission, bounds
from nova_rt.reservation.request import HintRule


@ddt.ddt
class ConfTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt.conf.register_opts(self.conf)
        self.conf([], default_config_files=[])

    def test_credentials(self):
        """They are read without being registered, and set by a file."""
        self.assertFalse(nova_api.is_configured(self.conf))
        self.assertFalse(nova_api.is_configured(self.conf))
        self.assertEqual('compute', self.conf.nova_rt_nova.service_type)
        file = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'x'
        file.write_text('[nova_rt_nova]\nauth_type = password\n')
        other = cfg.ConfigOpts()
        nova_rt.conf.register_opts(other)
        other([], default_config_files=[str(file)])
        self.assertTrue(nova_api.is_configured(other))

    def test_imports_no_client_of_keystone(self):
        """Every program imports the options, and few have credentials."""
        code = (
            'import sys\nfrom oslo_config import cfg\nimport nova_rt.conf\n'
            'nova_rt.conf.register_opts(cfg.ConfigOpts())\n'
            'print([name for name in sys.modules if "keystone" in name])'
        )
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual('[]', done.stdout.strip())

    def test_sample_lists_every_option(self):
        nova_api.register_opts(self.conf)
        for group, opts in nova_rt.conf.list_opts():
            listed = [opt.dest for opt in opts]
            self.assertEqual(sorted(self.conf[group.name]), sorted(listed))

    def test_configurations_do_not_share_values(self):
        other = cfg.ConfigOpts()
        nova_rt.conf.register_opts(other)
        other([], default_config_files=[])
        self.conf.set_override('hints', 'deny', 'nova_rt')
        self.assertEqual('lower', other.nova_rt.hints)

    def test_every_option_has_help(self):
        for _group, opts in nova_rt.conf.list_opts():
            for opt in opts:
                self.assertTrue(opt.help, opt.name)

    def test_choices_are_those_of_the_code(self):
        for name, default, values in (
            ('hints', 'lower', HintRule),
            ('placement', 'worst_fit', admission.Placement),
            ('refusal_details', 'modest', exception.RefusalDetails),
        ):
            self.assertEqual(default, self.conf.nova_rt[name])
            for value in values:
                self.conf.set_override(name, value.value, 'nova_rt')

    def test_bounds(self):
        self.assertEqual(
            bounds.Bounds(HintRule.LOWER, 1_000, 1_000_000),
            bounds.Bounds.from_options(self.conf.nova_rt),
        )

    @ddt.data(
        ('hints', 'raise'),
        ('refusal_details', 'none'),
        ('min_period_us', 99),
        ('max_period_us', (1 << 22) + 1),
        ('reserved_ppm', 1_000_001),
        ('reserved_ppm', -1),
        ('verify_interval', -1),
        ('history_topic', 'a.b'),
    )
    @ddt.unpack
    def test_out_of_range(self, option, value):
        self.assertRaises(
            ValueError, self.conf.set_override, option, value, 'nova_rt'
        )
