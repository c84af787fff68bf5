# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications of what happens to reservations."""

from nova_rt.compute import notifications
from nova_rt.tests.functional import base


class NotificationsTest(base.RTServersTestBase):
    ADMIN_API = True
    CAST_AS_CALL = False

    def wait_for(self, kind, number=1):
        """The last notification of a kind, its priority and its payload."""
        found = self.notifier.wait_for_versioned_notifications(
            f'nova_rt.reservation.{kind}', n_events=number
        )
        self.assertEqual(number, len(found))
        payload = found[-1]['payload']
        self.assertEqual('RTReservationPayload', payload['nova_object.name'])
        self.assertEqual(
            notifications.RTReservationPayload.VERSION,
            payload['nova_object.version'],
        )
        self.assertEqual('nova_rt', payload['nova_object.namespace'])
        self.assertNotIn('nova_object.changes', payload)
        self.assertEqual('nova-compute:compute1', found[-1]['publisher_id'])
        return found[-1]['priority'], payload['nova_object.data']

    def kinds(self):
        return [
            sent['event_type'].removeprefix('nova_rt.reservation.')
            for sent in self.notifier.versioned_notifications
            if sent['event_type'].startswith('nova_rt.')
        ]

    def test_a_life(self):
        self.start_compute()
        server = self.create(self.rt_flavor('600/1000', priority='7'))
        rec = self.assert_held(server)
        priority, payload = self.wait_for('applied')
        self.assertEqual('INFO', priority)
        expected = {
            'uuid': server['id'],
            'host': 'compute1',
            'runtime_us': 600,
            'period_us': 1000,
            'bandwidth_ppm': 600_000,
            'cpus': list(rec.cpus),
            'enforcement': 'guarantee',
            'policy': 'rr',
            'priority': 7,
            'numa': 'prefer',
            'action': None,
            'details': None,
        }
        self.assertEqual(expected, {name: payload[name] for name in expected})
        self.lose_reservation(server)
        self.verify()
        priority, payload = self.wait_for('drifted')
        self.assertEqual('ERROR', priority)
        self.assertIn('expected', payload['details'])
        self.assertEqual('INFO', self.wait_for('repaired')[0])
        self._delete_server(server)
        self.wait_for('released')
        self.assertEqual(
            ['claimed', 'applied', 'drifted', 'repaired', 'released'],
            self.kinds(),
        )

    def test_refused(self):
        self.start_compute()
        server = self.create(self.rt_flavor())
        self.api.post_server_action(server['id'], {'suspend': None})
        priority, payload = self.wait_for('refused')
        self.assertEqual('INFO', priority)
        self.assertEqual('suspend', payload['action'])
        self.assertIn('containers', payload['details'])

    def test_only_if_nova_sends_versioned_ones(self):
        self.flags(notification_format='unversioned', group='notifications')
        self.start_compute()
        self._delete_server(self.create(self.rt_flavor()))
        self.assertEqual([], self.kinds())
