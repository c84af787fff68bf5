# SPDX-License-Identifier: Apache-2.0
"""Refusals of impossible requests: words and numbers, leaving nothing."""

import contextlib
import dataclasses
import errno
import pathlib

from lab.measure import container
from lab.tests import base


class RefusalTestCase(base.LabTestCase):
    """Servers that do not come to be."""

    def refused(self, flavor):
        """Ask for a server, check that nothing of it is there; the fault."""
        before = self.look()
        server = self.settled(self.request_server(flavor, network=True))
        self.assertEqual('ERROR', server.status)
        self.assertIn('fault', server.to_dict())
        self.assert_nothing_of(server, before)
        return server.fault['message']

    def assert_nothing_of(self, server, before):
        """The server is known by name; all else is as it was."""

        def gone():
            now = dataclasses.replace(self.look(), servers=before.servers)
            return now == before

        self.wait_for(gone, f'something is left of {server.id}')
        self.assert_nothing_allocated(server)

    def settled(self, server):
        """Wait until a server is ACTIVE or in ERROR."""
        self.wait_for(
            lambda: (
                self.cloud.compute.get_server(server.id).status
                in ('ACTIVE', 'ERROR')
            ),
            'neither ACTIVE nor ERROR',
            base.ACTIVE_S,
        )
        return self.cloud.compute.get_server(server.id)


class KernelRefusesTest(RefusalTestCase):
    """The kernel has the last word, and its numbers reach the user."""

    on_first = True

    def test_bandwidth_taken_by_another(self):
        held = self.taken_ppm()
        with self.stranger(self.ceiling_ppm() - held - 50_000):
            fault = self.refused('rt.small')
        self.assertIn('EINVAL', fault)
        self.assertIn('20000/100000', fault)

    def test_partition_lost_its_bandwidth(self):
        partition = self.partition()
        runtime = partition / 'cpu.rt_runtime_us'
        before = runtime.read_text()
        self.addCleanup(runtime.write_text, before)
        # What its groups hold cannot be taken away.
        period = int((partition / 'cpu.rt_period_us').read_text())
        self.write(runtime, -(-self.taken_ppm() * period // 10**6))
        server = self.create('rt.small')
        self.assert_agree(server, '20000/100000')

    @contextlib.contextmanager
    def stranger(self, ppm):
        """A control group in the partition that holds bandwidth."""
        group = self.partition() / 'e2e-stranger'
        group.mkdir()
        try:
            (group / 'cpu.rt_runtime_us').write_text('0')
            (group / 'cpu.rt_period_us').write_text('1000000')
            self.write(group / 'cpu.rt_runtime_us', ppm)
            yield
        finally:
            (group / 'cpu.rt_runtime_us').write_text('0')
            group.rmdir()

    def write(self, path, number):
        """Write a value that must fit; a group's bandwidth is back late."""

        def written():
            try:
                path.write_text(str(number))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return False
            return True

        self.wait_for(written, f'EINVAL for {number} in {path}')

    def partition(self) -> pathlib.Path:
        partition = container.hierarchies()['cpu'] / 'machine'
        if not (partition / 'cpu.rt_runtime_us').exists():
            self.skipTest('written for the files of cgroup v1')
        return partition

    def ceiling_ppm(self):
        held = container.held(self.partition())
        return held.runtime_us * 10**6 // held.period_us

    def taken_ppm(self):
        taken = 0
        for path in self.partition().glob('*/cpu.rt_runtime_us'):
            held = container.held(path.parent)
            taken += -(-held.runtime_us * 10**6 // held.period_us)
        return taken
