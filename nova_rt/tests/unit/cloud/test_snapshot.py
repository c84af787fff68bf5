# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cloud.snapshot."""

from oslotest import base

from nova_rt.cloud import snapshot


class ExtentTest(base.BaseTestCase):
    def test_describe(self):
        settled = snapshot.NovaServer(None, 'broken')
        busy = snapshot.NovaServer(None, 'broken', busy=True)
        extent = snapshot.Extent()
        for name, servers in (
            ('one', {'a': settled, 'b': busy}),
            ('two', {'c': settled, 'd': settled}),
        ):
            extent.add(snapshot.HostSnapshot(name, 'p', servers))
        self.assertEqual(
            'Compared 3 server(s) (1 more left out: busy) on 2 host(s)',
            extent.describe(),
        )
