# SPDX-License-Identifier: Apache-2.0
"""Nova's own diagnostics of a real-time server."""

from tempest.lib import decorators

from nova_rt_tempest_plugin.tests import base


class DiagnosticsTest(base.RTTest):
    """CPU time of each virtual CPU."""

    @decorators.idempotent_id('5b2e1860-7f9d-4ea8-bb2c-ad5f607c8d98')
    def test_cpu_time(self):
        server = self.boot()['id']
        first = self._cpus(server)
        self.assertEqual([0], sorted(first))
        second = self._cpus(server)
        self.assertGreaterEqual(second[0], first[0])

    def _cpus(self, server):
        found = self.admin_servers.show_server_diagnostics(server)
        return {each['id']: each['time'] for each in found['cpu_details']}
