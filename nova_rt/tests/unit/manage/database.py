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


class DatabaseTestCase(manage.CommandsMixin, base.BaseTestCase):
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

    def happen(self, number, kind, server=UUID, **more):
        """Add an event."""
        api.add_event(event(number, kind, server=server, **more), NOW)
