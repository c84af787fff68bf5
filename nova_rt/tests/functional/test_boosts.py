# SPDX-License-Identifier: Apache-2.0
"""Servers have more runtime while they start.

The thread of the boosts does not run: the tests take its steps, with a clock
of their own.
"""

import errno

import fixtures
from nova import exception as nova_exception

from nova_rt.compute import boosts, feedback
from nova_rt.formats.counts import Adaptation
from nova_rt.tests.functional import changes


class BoostTestBase(changes.ChangesTestBase):
    SPECS = {'startup_runtime': '800', 'startup_s': '60'}

    def setUp(self):
        for owner in (boosts.Boosts, feedback.Feedback):
            self.useFixture(
                fixtures.MockPatchObject(owner, 'start', lambda each: None)
            )
        super().setUp()
        self._delete_server(self.server)
        self.counts = []
        self.now_s = 1000.0
        self.take_over(self.host)
        self.flavor = self.rt_flavor('400/1000', **self.SPECS)
        self.server = self.create(self.flavor)

    def take_over(self, host, age_s=0):
        """Set the clock of the present service of a host.

        :param age_s: of all containers
        """
        self.host = host
        self.kernel = self.kernels[host]
        manager = self.computes[host].manager
        self.boosts = manager.rt_boosts
        self.boosts._clock = lambda: self.now_s
        self.boosts._count = self.counts.append
        with fixtures.MockPatch(
            'nova_rt.lxc.ages.read_age_s', side_effect=lambda pid: age_s
        ):
            self.boosts.resume_all()

    def go_on(self, seconds=0):
        """Let time pass, of which the thread sees the end."""
        self.now_s += seconds
        self.boosts.work()

    def boost(self):
        self.go_on()
        self.assert_runtimes(800)

    def actual(self):
        """The runtime that the kernel holds."""
        share, _ = self.held(self.server, self.host)
        return share.runtime_us

    def claimed(self):
        """The runtime that the host counts."""
        (claim,) = self.reservations(self.host).held.claims()[
            self.server['id']
        ]
        return claim.request.reservation.runtime_us

    def assert_runtimes(self, actual, claimed=None, own=400):
        """The kernel and the host have these, all others the server's own."""
        self.assertEqual(
            (actual, claimed or actual), (self.actual(), self.claimed())
        )
        rec = self.record_of(self.server)
        self.assertEqual(own, rec.request.reservation.runtime_us)
        self.assertEqual(own * 1000, self.allocated(self.server))
        self.verify()

    def assert_ended(self, own=400):
        """Nothing is left of a boost."""
        self.assert_runtimes(own, own=own)
        self.assertFalse(self.boosts.has(self.server['id']))
        self.assertIsNone(
            self.reservations(self.host).held.get_adapted(self.server['id'])
        )
        self.assert_changed(f'{own}/1000')

    def verify(self):
        """The check finds nothing to repair."""
        self.computes[self.host].driver.running.verify_all()
        self.assertEqual(0, self.repairs(self.host))

    def free_on_its_cpu(self, published=False):
        (cpu,) = self.record_of(self.server).cpus
        found = self.published if published else (
            lambda host: self.reservations(host).free().cpus
        )  # fmt: skip
        return found(self.host)[cpu]


class BoostTest(BoostTestBase):
    def test_create(self):
        before = self.free_on_its_cpu(published=True)
        self.boost()
        self.assertEqual(
            before - 400_000, self.free_on_its_cpu(published=True)
        )
        self.go_on(59.9)
        self.assert_runtimes(800)
        self.go_on(0.1)
        # The kernel holds used bandwidth until the end of its period.
        self.assert_runtimes(400, 800)
        self.go_on(0.001)
        self.assert_ended()
        self.assertEqual(before, self.free_on_its_cpu(published=True))
        self.assertEqual([Adaptation.BOOSTED], self.counts)
