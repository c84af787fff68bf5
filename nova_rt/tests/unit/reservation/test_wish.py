# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.wish."""

import ddt
from oslotest import base

from nova_rt import exception
from nova_rt.reservation import record, wish
from nova_rt.tests.fixtures import specs

REC = record.Record(specs.parse({'rt:reservation': '400/1000'}), (3,))


@ddt.ddt
class WishTest(base.BaseTestCase):
    def take(self, text, task='resize_prep'):
        metadata = {} if text is None else {wish.KEY: text}
        found = wish.take_along(REC, metadata, task)
        return str(found.request.reservation)

    @ddt.data(
        (None, '400/1000'),
        ('700/1000', '700/1000'),
        ('800/2000', '800/2000'),
        # Feedback has led to more meanwhile.
        ('300/1000', '400/1000'),
    )
    @ddt.unpack
    def test_migrated(self, text, taken):
        self.assertEqual(taken, self.take(text))

    @ddt.data(None, 'rebuilding', 'unshelving', 'resize_migrating')
    def test_other_tasks(self, task):
        """An evacuation is not to fail for want of room for a wish."""
        self.assertEqual('400/1000', self.take('700/1000', task))

    def test_nonsense(self):
        self.assertRaises(
            exception.InvalidReservation, self.take, 'as much as there is'
        )
