# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.db.release."""

from nova_rt.db import api
from nova_rt.db.release import release
from nova_rt.tests.unit.manage import database
from nova_rt.tests.unit.manage.database import NOBODY, NOW, RECORD, A, B


class ReleaseTest(database.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.report(**{A: RECORD, B: RECORD})

    def release(self, uuid=A, host='host1'):
        return release(uuid, host, NOW, 'me', 'gone')

    def test_release(self):
        self.assertTrue(self.release())
        (left,) = api.list_servers()
        self.assertEqual(B, left.uuid)
        self.assertEqual('released', api.get_server(A).state)
        (entry,) = api.get_history(A)
        self.assertEqual(
            ('released', 'gone', 'me', 'host1', NOW),
            (entry.kind, entry.details, entry.by, entry.host, entry.at),
        )

    def test_once(self):
        self.assertTrue(self.release())
        self.assertFalse(self.release())
        self.assertEqual(1, len(api.get_history(A)))

    def test_many(self):
        """Each with an entry of its own."""
        self.assertTrue(self.release(A))
        self.assertTrue(self.release(B))
        self.assertEqual(1, len(api.get_history(B)))

    def test_unknown(self):
        self.assertFalse(self.release(NOBODY))
        self.assertFalse(self.release(host='host9'))
        self.assertEqual(2, len(api.list_servers()))
        self.assertEqual(1, len(api.list_hosts()))

    def test_a_report_says_otherwise(self):
        """The service of the host knows better."""
        self.assertTrue(self.release())
        self.report(**{A: RECORD, B: RECORD})
        self.assertEqual('applied', api.get_server(A).state)
        self.assertTrue(self.release())
        self.assertEqual(2, len(api.get_history(A)))

    def test_does_not_disturb_events(self):
        """Those of the service are numbered by themselves."""
        self.assertTrue(self.release())
        self.happen(1, 'claimed')
        self.assertTrue(self.release(B))
        self.assertEqual(2, len(api.get_history(A)))
