# SPDX-License-Identifier: Apache-2.0
"""Reservations change while their servers run, and all places agree."""

import json
import subprocess

from lab import paths
from lab.measure import container
from lab.tests import base
from lab.tests.reports import manage

#: A look of a conductor at the database, and a try at a deferred change.
PATIENCE_S = 90


class ChangesTest(base.LabTestCase):
    on_first = True

    def set(self, server, reservation, *words):
        return manage('reservation', 'set', server.id, reservation, *words)

    def show(self, server):
        code, found = manage('reservation', 'show', server.id)
        self.assertEqual(0, code, found)
        return found

    def change(self, server, reservation):
        code, found = self.set(server, reservation, '--wait')
        self.assertEqual(
            (0, 'Applied', reservation, reservation, reservation),
            (code, found['Condition'], found['Desired'], found['Allocated'],
             found['Actual']),
        )  # fmt: skip
        self.assert_agree(server, reservation)

    def test_grow_and_shrink(self):
        """The container goes on, and keeps what was changed."""
        server = self.create('rt.tiny')
        pid = self.container(server).pid
        for reservation in (
            '20000/100000', '30000/100000', '15000/50000', '5000/100000',
        ):  # fmt: skip
            self.change(server, reservation)
            self.assertEqual(pid, self.container(server).pid)
        self.assertEqual(4, self.show(server)['Generation'])
        self.cloud.compute.reboot_server(server.id, 'HARD')
        self.wait_for(
            lambda: self.is_another(server, pid), 'it was not rebooted'
        )
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '5000/100000')
        self.wait_for(
            lambda: self.count_changes(server) == 4,
            lambda: f'the history has {self.count_changes(server)} changes',
            PATIENCE_S,
        )
        code, findings = manage('audit')
        self.assertEqual((0, []), (code, findings))

    def is_another(self, server, pid):
        found = container.Container.of(server.id)
        return found is not None and found.pid != pid

    def count_changes(self, server):
        code, rows = manage('server', 'history', server.id)
        self.assertEqual(0, code)
        return sum(row['Event'] == 'changed' for row in rows)

    def openstack(self, *words):
        done = subprocess.run(
            [paths.BIN / 'openstack', 'rt', *words, '-f', 'json'],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return json.loads(done.stdout)

    def test_by_the_client(self):
        """Through nova-rt-api, with a look at the host."""
        server = self.create('rt.tiny')
        found = self.openstack(
            'reservation', 'set', '--wait', server.id, '20000/100000'
        )
        self.assertEqual(
            ('Applied', '20000/100000', '20000/100000', 1),
            (found['condition'], found['allocated'], found['actual'],
             found['generation']),
        )  # fmt: skip
        self.assert_agree(server, '20000/100000')
        (listed,) = (
            row
            for row in self.openstack('reservation', 'list', '--all-projects')
            if row['Server'] == server.id
        )
        self.assertEqual('20000/100000', listed['Allocated'])
        host = self.openstack('host', 'show', self.host_of(server))
        self.assertIn(
            server.id,
            [uuid for cpu in host['cpus'] for uuid in cpu['servers']],
        )

    def test_stopped(self):
        server = self.create('rt.tiny')
        self.cloud.compute.stop_server(server.id)
        self.reach(server, 'SHUTOFF')
        code, found = self.set(server, '20000/100000', '--wait')
        self.assertEqual((0, 'Applied'), (code, found['Condition']))
        self.cloud.compute.start_server(server.id)
        self.reach(server, 'ACTIVE')
        self.assert_agree(server, '20000/100000')

    def test_no_room(self):
        """It is refused with numbers; deferred, it comes when there is."""
        server = self.create('rt.tiny')
        stats = self.stats()[self.host_of(server)]
        free_ppm = stats.host_free or max(stats.free.values())
        other = self.create(self.rt_flavor(f'{free_ppm // 10 - 1000}/100000'))
        code, found = self.set(server, '30000/100000', '--wait')
        self.assertEqual((1, 'Infeasible'), (code, found['Condition']))
        self.assertEqual(300_000, found['Asked ppm'])
        self.assertLess(found['Free ppm'], 300_000)
        self.set(server, '30000/100000', '--on-no-room', 'defer')
        self.wait_for(
            lambda: self.show(server)['Condition'] == 'Deferred',
            lambda: f'it is not deferred: {self.show(server)}',
        )
        self.assertEqual('10000/100000', self.show(server)['Allocated'])
        self.delete(other)
        self.wait_for(
            lambda: self.show(server)['Condition'] == 'Applied',
            lambda: f'it is not applied: {self.show(server)}',
            PATIENCE_S,
        )
        self.assert_agree(server, '30000/100000')
