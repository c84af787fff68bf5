# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cloud.snapshot."""

from oslotest import base

from nova_rt.cloud import snapshot


class ExtentTest(base.BaseTestCase):
    def describe(self, *pictures):
        extent = snapshot.Extent()
        for each in pictures:
            extent.add(each)
        return extent.describe()

    def test_nothing(self):
        self.assertEqual(
            'Compared 0 server(s) on 0 host(s)',
            self.describe(),
        )

    def test_servers(self):
        settled = snapshot.NovaServer(None, 'broken')
        busy = snapshot.NovaServer(None, 'broken', busy=True)
        self.assertEqual(
            'Compared 3 server(s) (1 more left out: busy) on 2 host(s)',
            self.describe(
                snapshot.HostSnapshot('one', 'p', {'a': settled, 'b': busy}),
                snapshot.HostSnapshot(
                    'two', 'q', {'c': settled, 'd': settled}
                ),
            ),
        )
