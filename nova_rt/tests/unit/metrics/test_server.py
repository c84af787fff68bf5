# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.metrics.server.

Its clients are in tools/tests: here, Nova's fixtures may have replaced its
threads by green ones.
"""

import threading

from oslotest import base

from nova_rt.metrics import server


class PageTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.made = 0

    def make(self):
        self.made += 1
        return str(self.made).encode()

    def test_is_kept_for_a_while_and_no_longer(self):
        page = server.Page(self.make, 3600)
        self.assertEqual([b'1'] * 3, [page.get() for _ in range(3)])
        page._until -= 3600
        self.assertEqual(b'2', page.get())

    def test_those_who_come_together_share_one(self):
        go = threading.Event()

        def make():
            go.wait(10)
            return self.make()

        page = server.Page(make, 60)
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(page.get()))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        go.set()
        for thread in threads:
            thread.join()
        self.assertEqual([b'1'] * 20, found)

    def test_a_failure_is_no_old_text_and_is_not_repeated_at_once(self):
        page = server.Page(self.make, 3600)
        self.assertEqual(b'1', page.get())

        def fail():
            self.made += 1
            raise ValueError

        page._make = fail
        page._until -= 3600
        with self.assertLogs('nova_rt.metrics.server') as logs:
            self.assertIsNone(page.get())
            self.assertIsNone(page.get())
        self.assertEqual((2, 1), (self.made, len(logs.output)))
