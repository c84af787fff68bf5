# SPDX-License-Identifier: Apache-2.0
"""A reservation follows the load of its server."""

from lab.tests import base

#: Feedback decides each second; a record follows within a minute.
GROW_S = 60
RECORD_S = 90


class FeedbackTest(base.LabTestCase):
    on_first = True

    def runtime_us(self, server):
        """Read the runtime that the kernel holds."""
        return self.container(server).held().runtime_us

    def reach_runtime(self, server, suits):
        """Wait until the kernel, and then all others, hold such a runtime."""
        self.wait_for(
            lambda: suits(self.runtime_us(server)),
            lambda: f'the kernel holds {self.runtime_us(server)} us',
            GROW_S,
        )
        self.wait_for(
            lambda: (
                self.record(server).request.reservation.runtime_us
                == self.runtime_us(server)
            ),
            lambda: f'its record is {self.record(server).encode()}',
            RECORD_S,
        )
        self.wait_for(
            lambda: (
                self.allocations(server)[base.RESOURCE_CLASS]
                == self.record(server).total_ppm
            ),
            lambda: f'Placement holds {self.allocations(server)}',
            RECORD_S,
        )

    def test_grows_and_gives_back(self):
        server = self.create(
            self.rt_flavor(
                '10000/100000', adapt='throttled', runtime_min='8000',
                runtime_max='40000',
            ),
            network=True,
        )  # fmt: skip
        pid = self.container(server).pid
        probe = self.probe(server)
        probe.hog('rr', 1, seconds=GROW_S + 2 * RECORD_S)
        self.reach_runtime(server, lambda us: us == 40000)
        self.assert_agree(server, '40000/100000')
        probe.quiet()
        self.reach_runtime(server, lambda us: us == 8000)
        self.assert_agree(server, '8000/100000')
        self.assertEqual(pid, self.container(server).pid)
