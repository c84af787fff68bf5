# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.options."""

import json

import ddt
from oslo_config import cfg
from oslotest import base

import nova_rt.conf
from nova_rt.host.options import Options

_ALL = Options(
    '2-7',
    True,
    'best_fit',
    50_000,
    'rt.slice',
    {'[compute] x': '0-1'},
    '1000/10000',
)


@ddt.ddt
class OptionsTest(base.BaseTestCase):
    def test_defaults_are_those_of_the_configuration(self):
        conf = cfg.ConfigOpts()
        nova_rt.conf.register_opts(conf)
        conf([], default_config_files=[])
        self.assertEqual(Options(), Options.from_group(conf.nova_rt, {}))

    @ddt.data(Options(), _ALL)
    def test_round_trip(self, options):
        text = json.dumps(options.to_dict())
        self.assertEqual(options, Options.from_dict(json.loads(text)))

    def test_of_other_versions(self):
        found = Options.from_dict({'smt': True, 'later': [1]})
        self.assertEqual(Options(smt=True), found)

    @ddt.data(
        {'cpu_set': 1}, {'smt': 'yes'}, {'placement': 'none'},
        {'placement': []}, {'reserved_ppm': True}, {'reserved_ppm': 1.5},
        {'partition': 1}, {'others': []}, {'others': {'x': 1}},
        {'spare_pool': 1},
    )  # fmt: skip
    def test_broken(self, found):
        self.assertRaises(ValueError, Options.from_dict, found)
