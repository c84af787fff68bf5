# SPDX-License-Identifier: Apache-2.0
"""A history with events in it, for tests of commands."""

import fixtures
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.db import api, models, session
from nova_rt.tests.fixtures import manage
from nova_rt.tests.fixtures.history import NOW, UUID, event


class DatabaseTestCase(base.BaseTestCase):
    """Runs commands on a database in a file."""

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.flags = self.useFixture(config.Config(self.conf)).config
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.flags(
            group='nova_rt_database',
            connection=f'sqlite:///{self.directory}/nova_rt.db',
        )
        api.configure(self.conf)
        models.Base.metadata.create_all(session.get_engine())

    def run_command(self, *words):
        return manage.run(self.conf, *words)

    def read(self, *words):
        """The data that a command prints."""
        result = self.run_command(*words, '-f', 'json')
        self.assertEqual(0, result.code, result.err)
        return result.data

    def assert_fails(self, code, text, *words):
        """One clean line."""
        result = self.run_command(*words)
        self.assertEqual((code, ''), (result.code, result.out), result.err)
        self.assertEqual(1, result.err.count('\n'), result.err)
        self.assertTrue(result.err.strip().isprintable())
        self.assertIn(text, result.err)

    def happen(self, number, kind, server=UUID, **more):
        """Add an event."""
        api.add_event(event(number, kind, server=server, **more), NOW)
