# SPDX-License-Identifier: Apache-2.0
"""Events of nova-rt-compute in the history, for which nothing waits."""

import time

from nova.tests.functional.libvirt import base as nova_base

from nova_rt import exception
from nova_rt.db import api
from nova_rt.tests.fixtures import conductor, database
from nova_rt.tests.functional import base


class ConductorTest(base.RTServersTestBase):
    def setUp(self):
        super().setUp()
        self.useFixture(database.Database())
        self.bus = self.useFixture(conductor.Bus(nova_base.CONF))

    def _start(self, **options):
        self.flags_of_ours(report=True, **options)
        self.flags(state_path=self.useFixture(base.fixtures.TempDir()).path)
        self.start_compute()

    def _wait_for(self, *kinds, server):
        deadline = time.monotonic() + 60
        found = ()
        while found != kinds:
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.1)
            try:
                history = api.get_history(server['id'])
            except exception.ServerNotFound:
                continue
            found = tuple(each.kind for each in reversed(history))

    def test_a_story(self):
        self.bus.start()
        self._start()
        server = self.create(self.rt_flavor('600/1000', vcpus=2))
        self._wait_for('claimed', 'applied', server=server)
        (claimed,) = [
            each
            for each in api.get_history(server['id'])
            if each.kind == 'claimed'
        ]
        self.assertEqual(
            ('compute1', '600/1000', self.record_of(server).cpus),
            (claimed.host, claimed.reservation, claimed.cpus),
        )
        # By the test's user.
        self.assertTrue(claimed.origin.project_id)
        self.assertTrue(claimed.origin.user_id)
        self.assertTrue(claimed.origin.request_id.startswith('req-'))
        self.lose_reservation(server)
        self.computes['compute1'].manager.driver.running.verify_all()
        story = ('claimed', 'applied', 'drifted', 'repaired')
        self._wait_for(*story, server=server)
        self._delete_server(server)
        self._wait_for(*story, 'released', server=server)
        (held,) = api.get_intervals(server['id'])
        self.assertEqual(claimed.at, held.since)
        self.assertIsNotNone(held.until)

    def test_a_whole_life_without_a_conductor(self):
        """The service ends before one is there."""
        self._start()
        server = self.create(self.rt_flavor())
        self.assert_held(server)
        self._delete_server(server)
        self.computes['compute1'].stop()
        self.bus.start()
        self._wait_for('claimed', 'applied', 'released', server=server)

    def test_not_asked_for(self):
        self.start_compute()
        self.assertIsNone(self.computes['compute1'].manager._rt_history)
