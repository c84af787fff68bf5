# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.conductor.wishes."""

from unittest import mock

from nova_rt.conductor import queue, wishes
from nova_rt.db import changes
from nova_rt.tests.fixtures.history import make_uuid
from nova_rt.tests.unit.db import base
from nova_rt.tests.unit.db.test_changes import wish

BUSES = {'a': 'fake:/1', 'b': 'fake:/2', 'c': 'fake:/2'}


class WishesTest(base.DatabaseTest):
    def test_cells(self):
        """A conductor is woken on the message bus of the host."""
        ours = wishes.Wishes(self.database.conf, 'test', BUSES.__getitem__)
        with mock.patch.object(queue, 'Sender') as sender:
            for number, host in enumerate('abca'):
                ours.add(wish(number, host=host), None)
        # One connection for each bus.
        self.assertEqual(
            [mock.call(self.database.conf, f'fake:/{bus}') for bus in (1, 2)],
            sender.call_args_list,
        )
        self.assertEqual(4, sender.return_value.send.call_count)

    def test_unknown_bus(self):
        """The change is stored nevertheless."""
        ours = wishes.Wishes(self.database.conf, 'test', BUSES.__getitem__)
        with self.assertLogs(wishes.__name__, 'WARNING'):
            ours.add(wish(1, host='d'), None)
        self.assertIsNotNone(changes.get(make_uuid(1)))
