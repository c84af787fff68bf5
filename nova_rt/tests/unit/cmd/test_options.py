# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.options."""

import pathlib

import ddt
import fixtures
from oslo_config import cfg
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import options


class FilesTest(base.BaseTestCase):
    """Files that are read by default."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.TempHomeDir())
        self.top = pathlib.Path.home() / '.nova'
        self.top.mkdir()
        for name in ('nova', 'nova-rt-status', 'nova-rt-conductor'):
            (self.top / f'{name}.conf').touch()

    def find(self):
        found = [
            pathlib.Path(path) for path in options.find_files('nova-rt-status')
        ]
        self.assertEqual({self.top}, {path.parent for path in found})
        return [path.name for path in found]

    def test_conductor_is_last(self):
        self.assertEqual(
            ['nova.conf', 'nova-rt-status.conf', 'nova-rt-conductor.conf'],
            self.find(),
        )

    def test_no_conductor(self):
        (self.top / 'nova-rt-conductor.conf').unlink()
        self.assertEqual(['nova.conf', 'nova-rt-status.conf'], self.find())

    def test_conductor_of_root(self):
        """An ordinary user may ask for the specs of a flavor."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'os.access', lambda path, mode: 'conductor' not in path
            )
        )
        self.assertEqual(['nova.conf', 'nova-rt-status.conf'], self.find())


@ddt.ddt
class OptionsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = directory / 'nova.conf'

    def read(self, text):
        self.file.write_text(text)
        with options.errors(self.conf):
            self.conf(['--config-file', str(self.file)], project='nova')

    def refusal(self, text, *groups):
        def read():
            self.read(text)
            options.check(self.conf, *groups)

        message = str(self.assertRaises(options.Unusable, read))
        self.assertNotIn('\n', message)
        self.assertIn(str(self.file), message)
        return message

    @ddt.data('[nova_rt\n', 'x = 1\n', '[nova_rt]\n  more\n', '\x00\n')
    def test_file_that_cannot_be_parsed(self, text):
        self.refusal(text)

    def test_of_several_the_wrong_one(self):
        """Both groups have an option of that name."""
        self.conf.register_opt(cfg.StrOpt('port'), group='other')
        text = '[other]\nport = x\n[nova_rt_exporter]\nport = 7\nport = y\n'
        message = self.refusal(text, 'other', 'nova_rt_exporter')
        self.assertIn('[nova_rt_exporter] port = y', message)

    def test_unknown_substitution(self):
        text = '[nova_rt_exporter]\nlibvirt_uri = $nothing\n'
        self.file.write_text(text)
        self.read(text)
        self.assertRaises(
            options.Unusable, options.check, self.conf, 'nova_rt_exporter'
        )

    def test_other_groups_are_not_looked_at(self):
        self.read('[nova_rt]\nmax_period_us = x\n')
        options.check(self.conf, 'nova_rt_exporter', 'nova_rt_database')
