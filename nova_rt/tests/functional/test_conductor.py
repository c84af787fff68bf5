# SPDX-License-Identifier: Apache-2.0
"""Reports of nova-rt-compute to a conductor, for which nothing waits."""

import threading
import time

from nova import rpc

from nova_rt import exception
from nova_rt.compute.epoch import epoch_path
from nova_rt.db import api
from nova_rt.tests.fixtures import conductor, database
from nova_rt.tests.functional import base


def reporters():
    return [
        each for each in threading.enumerate()
        if each.name == 'nova-rt-reports'
    ]  # fmt: skip


class ConductorTest(base.RTServersTestBase):
    def setUp(self):
        super().setUp()
        self.before = set(reporters())
        self.useFixture(database.Database())
        self.bus = self.useFixture(conductor.Bus(rpc.TRANSPORT))

    def _start(self):
        self.flags_of_ours(report=True, usage_interval=1)
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
        found = api.get_server(server['id'])
        self.assertEqual(
            ('compute1', 600_000, 'applied'),
            (found.host, found.ppm, found.state),
        )
        # By whom: the test's user.
        (claimed,) = [
            each.origin
            for each in api.get_history(server['id'])
            if each.kind == 'claimed'
        ]
        self.assertTrue(claimed.project_id)
        self.assertTrue(claimed.user_id)
        self.assertTrue(claimed.request_id.startswith('req-'))
        self.lose_reservation(server)
        self.computes['compute1'].manager.driver.running.verify_all()
        story = ('claimed', 'applied', 'drifted', 'repaired')
        self._wait_for(*story, server=server)
        self._delete_server(server)
        self._wait_for(*story, 'released', server=server)
        host = api.get_host('compute1')
        self.assertEqual('v2-rt-max-cpu', host.interface)
        self.assertEqual(900_000, host.cpus[0].capacity_ppm)

    def test_none_answers(self):
        """Servers start and go as ever, and nothing piles up on the bus."""
        self._start()
        server = self.create(self.rt_flavor())
        self.assert_held(server)
        self._delete_server(server)
        self.assertEqual(1, len(set(reporters()) - self.before))

    def test_not_asked_for(self):
        self.start_compute()
        server = self.create(self.rt_flavor())
        self.assert_held(server)
        self.assertEqual(0, len(set(reporters()) - self.before))

    def test_the_file_of_epochs_cannot_be_written(self):
        self.flags_of_ours(report=True)
        top = self.useFixture(base.fixtures.TempDir()).path
        self.flags(state_path=f'{top}/file')
        with open(f'{top}/file', 'w'):
            pass
        self.start_compute()
        self.assert_held(self.create(self.rt_flavor()))
        self.assertFalse(epoch_path(top, 'compute1').exists())
