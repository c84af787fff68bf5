# SPDX-License-Identifier: Apache-2.0
"""Reservations follow the load of their servers.

The threads of the feedback do not run: the tests take their steps, with a
clock of their own.
"""

import errno

import fixtures
from nova import exception as nova_exception
from nova.compute import task_states
from oslo_concurrency import lockutils

from nova_rt import events
from nova_rt.compute import feedback
from nova_rt.feedback.law import SAMPLE_S
from nova_rt.formats.counts import Adaptation
from nova_rt.tests.functional import changes
from nova_rt.tracking import servers


class FeedbackTestBase(changes.ChangesTestBase):
    def setUp(self):
        self.useFixture(
            fixtures.MockPatchObject(
                feedback.Feedback, 'start', lambda each: None
            )
        )
        super().setUp()
        self._delete_server(self.server)
        self.flavor = self.rt_flavor(
            '400/1000', adapt='throttled', runtime_min='100',
            runtime_max='800',
        )  # fmt: skip
        self.server = self.create(self.flavor)
        self.host = self.host_of(self.server)
        self.kernel = self.kernels[self.host]
        self.counts = []
        self.now_s = 1000.0
        self.used_us = self.throttled = 0
        self.take_over()

    def take_over(self):
        """Set the clock of the present service."""
        self.feedback = self.computes[self.host].manager.rt_feedback
        records = self.computes[self.host].manager._rt_adapted
        for each in (self.feedback, records):
            each._clock = lambda: self.now_s
            each._count = self.counts.append

    # A server with a load

    def group(self):
        return self.kernel.group_of(self.guest(self.server, self.host).id)

    def actual(self):
        """The runtime that the kernel holds."""
        share, _ = self.held(self.server, self.host)
        return share.runtime_us

    def load(self, cpus, seconds):
        """Let the server need so many CPUs, for a time."""
        (cpu,) = self.record_of(self.server).cpus
        for _ in range(round(seconds / SAMPLE_S)):
            self.now_s += SAMPLE_S
            most = self.actual() / 1000
            self.used_us += round(min(cpus, most) * SAMPLE_S * 1_000_000)
            self.throttled += 100 * (cpus > most)
            self.use(cpu)
            self.feedback.sample()
            self.feedback.work()

    def use(self, cpu):
        self.kernel.use(self.group(), cpu, 100, self.throttled, self.used_us)

    def record(self):
        """The minute's report."""
        self.now_s += 60
        self.computes[self.host].manager._record_adapted(self.ctxt)

    def claimed(self):
        """The runtime that the host counts."""
        (claim,) = self.reservations(self.host).held.claims()[
            self.server['id']
        ]
        return claim.request.reservation.runtime_us

    def recorded(self):
        return self.record_of(self.server).request.reservation.runtime_us

    def assert_all(self, runtime_us):
        """Everything agrees on a runtime."""
        self.assertEqual(runtime_us, self.actual())
        self.assert_changed(f'{runtime_us}/1000')
        self.assertIsNone(
            self.reservations(self.host).held.get_adapted(self.server['id'])
        )

    def verify(self):
        """The check finds nothing to repair."""
        self.computes[self.host].driver.running.verify_all()
        self.assertEqual(0, self.repairs(self.host))

    def free_on_its_cpu(self):
        (cpu,) = self.record_of(self.server).cpus
        return self.reservations(self.host).free().cpus[cpu]


class FeedbackTest(FeedbackTestBase):
    def test_grow_and_shrink(self):
        seen = self.listen(self.host)
        self.load(0.7, 4)
        grown = self.actual()
        self.assertGreaterEqual(grown, 700)
        # The host counts it at once, the record and Placement later.
        self.assertEqual((grown, 400), (self.claimed(), self.recorded()))
        self.assertEqual(400_000, self.allocated(self.server))
        self.verify()
        self.record()
        self.assert_all(grown)
        self.verify()
        self.load(0.1, 20)
        shrunk = self.actual()
        self.assertLess(shrunk, 200)
        self.assertEqual((grown, grown), (self.claimed(), self.recorded()))
        self.verify()
        self.record()
        self.assert_all(shrunk)
        self.assertEqual(
            [f'{grown}/1000', f'{shrunk}/1000'],
            [
                str(each.record.request.reservation)
                for each in seen
                if isinstance(each, events.Adapted)
            ],
        )
        self.assertEqual({Adaptation.GROWN, Adaptation.SHRUNK}, {*self.counts})
        self.record()
        self.assert_all(shrunk)

    def test_bounds(self):
        self.load(1.0, 6)
        self.assertEqual(800, self.actual())
        self.load(0.01, 15)
        self.assertEqual(100, self.actual())

    def test_by_free_bandwidth(self):
        """Of its own CPU, and never over it."""
        self.fill('500/1000', 4)
        room = self.free_on_its_cpu()
        self.assertLess(room, 100_000)
        self.load(0.7, 6)
        self.assertEqual(400 + room // 1000, self.actual())
        self.assertEqual(0, self.free_on_its_cpu() // 1000)
        self.assertIn(Adaptation.LIMITED, self.counts)
        self.record()
        self.assert_all(400 + room // 1000)

    def test_the_claim_is_the_gate(self):
        """Others cannot have what it has grown by, told or not."""
        self.load(0.9, 6)
        self.assertEqual(800, self.actual())
        free = self.free_on_its_cpu()
        (cpu,) = self.record_of(self.server).cpus
        self.assertEqual(self.capacity(self.host)[cpu] - 800_000, free)
        for each in self.fill('300/1000', 3):
            self.assertNotEqual((cpu,), self.record_of(each).cpus)

    def test_placement_has_no_room(self):
        """A refused report shrinks the server back."""
        self.take_in_placement(but=500_000)
        self.load(0.9, 6)
        self.assertEqual(800, self.actual())
        self.record()
        self.assertEqual(500, self.actual())
        self.assertIn(Adaptation.RETURNED, self.counts)
        self.load(0.9, 6)
        self.assertEqual(500, self.actual())
        self.record()
        self.assertEqual((500, 500), (self.claimed(), self.recorded()))
        self.assertEqual(500_000, self.allocated(self.server))

    def test_placement_is_away(self):
        self.load(0.9, 6)
        client = self.computes[self.host].manager.reportclient
        with fixtures.MockPatchObject(
            client, 'put_allocations',
            side_effect=nova_exception.PlacementAPIConnectFailure(),
        ):  # fmt: skip
            self.record()
        self.assertEqual((800, 800), (self.claimed(), self.recorded()))
        self.assertEqual(400_000, self.allocated(self.server))
        self.record()
        self.assert_all(800)

    def test_the_kernel_refuses(self):
        self.refuse_writes(errno.EBUSY, self.host)
        self.load(0.9, 3)
        self.assertEqual(400, self.actual())
        self.assertIn(Adaptation.REFUSED, self.counts)
        self.refuse_writes(0, self.host)
        self.load(0.9, 8)
        self.assertEqual(800, self.actual())

    def test_no_readings(self):
        """It keeps what it has, and an event reports it, once."""
        seen = self.listen(self.host)
        self.load(0.3, 2)
        with fixtures.MockPatch(
            'nova_rt.host.hcbs_files.HCBSReader.read_usage',
            side_effect=OSError(errno.EIO, 'no'),
        ):
            self.load(0.9, 8)
            self.assertEqual(400, self.actual())
            loop = self.feedback.loops[self.server['id']]
            self.assertIn('no', loop.frozen)
        self.assertEqual(
            1, sum(isinstance(each, events.Frozen) for each in seen)
        )
        self.load(0.9, 8)
        self.assertEqual(('', 800), (loop.frozen, self.actual()))

    def test_a_task(self):
        """Nothing is saved while something is done to the server."""
        self.load(0.9, 6)
        instance = self.instance(self.server)
        instance.task_state = task_states.REBOOTING
        instance.save()
        self.record()
        self.assertEqual(400, self.recorded())
        instance.task_state = None
        instance.save()
        with lockutils.lock(self.server['id'], lock_file_prefix='nova-'):
            self.record()
        self.assertEqual(400, self.recorded())
        self.record()
        self.assert_all(800)

    def test_moving(self):
        """It stands still until the move has ended, and goes on after it."""
        self.load(0.9, 6)
        self.migrate(self.server)
        self.feedback.sample()
        self.feedback.work()
        self.record()
        self.confirm(self.server)
        self.host = self.host_of(self.server)
        self.kernel = self.kernels[self.host]
        self.take_over()
        self.assert_all(400)
        self.used_us = self.throttled = 0
        self.load(0.9, 6)
        self.assertEqual(800, self.actual())

    def test_stopped_and_started(self):
        """It starts with its record; what it had beside it is free."""
        self.load(0.9, 6)
        self._stop_server(self.server)
        for _ in range(5):
            self.now_s += 1
            self.feedback.sample()
            self.feedback.work()
        self.assertEqual(400, self.claimed())
        self._start_server(self.server)
        self.assert_all(400)

    def test_deleted(self):
        self.load(0.9, 6)
        self._delete_server(self.server)
        self.assertEqual([], self.all_claims(self.host))
        self.feedback.sample()
        self.assertEqual({}, self.feedback.loops)
        self.record()
        self.assertEqual(0, self.used(self.host))

    def test_reboot(self):
        self.load(0.9, 6)
        self.hard_reboot(self.server)
        self.assertEqual(400, self.actual())
        self.verify()

    # The owner's changes

    def test_changed(self):
        """A change sets the value, and the feedback goes on from there."""
        self.load(0.9, 6)
        self.change(self.server, '300/1000')
        self.assert_all(300)
        self.load(0.25, 3)
        self.assertEqual(300, self.actual())
        self.load(0.9, 6)
        self.record()
        self.assert_all(800)
        self.assertEqual(
            1, servers.read_generation(self.instance(self.server))
        )
        self.change(self.server, '350/1000')
        self.assert_all(350)

    def test_changed_to_more(self):
        """The claim of the feedback makes room for the change."""
        self.fill('130/1000', 4)
        self.load(0.9, 6)
        self.assertEqual(800, self.actual())
        self.change(self.server, '750/1000')
        self.assert_all(750)

    def test_pinned(self):
        """An operator's runtime outside of the bounds stays."""
        self.change(self.server, '850/1000')
        self.load(0.1, 7)
        self.assertEqual(850, self.actual())

    # Restarts

    def test_restart(self):
        """The kernel's reservation counts from the first moment on."""
        self.load(0.9, 6)
        self.restart_compute_service(self.host)
        self.assertEqual((800, 800, 400), (
            self.actual(), self.claimed(), self.recorded()))  # fmt: skip
        self.assertEqual(0, self.repairs(self.host))
        self.take_over()
        self.feedback.sample()
        self.record()
        self.assert_all(800)

    def test_switched_off(self):
        self.load(0.9, 6)
        self.flags_of_ours(adapt=False)
        self.restart_compute_service(self.host)
        self.assert_all(400)
        self.assertEqual(0, self.repairs(self.host))
        self.assertIsNone(self.computes[self.host].manager.rt_feedback)

    def test_killed_before_placement_was_told(self):
        self.load(0.9, 6)
        manager = self.computes[self.host].manager
        with fixtures.MockPatchObject(
            manager.rt_changes, 'allocate', side_effect=SystemExit
        ):
            self.assertRaises(SystemExit, self.record)
        self.assertEqual((800, 400_000), (
            self.recorded(), self.allocated(self.server)))  # fmt: skip
        self.restart_compute_service(self.host)
        self.take_over()
        self.feedback.sample()
        self.record()
        self.assert_all(800)


class OtherInterfaceTest:
    """The same on another interface, with what its kernel counts."""

    def test_grow_and_shrink(self):
        self.load(0.7, 4)
        grown = self.actual()
        self.assertGreaterEqual(grown, 700)
        self.record()
        self.assert_all(grown)
        self.load(0.1, 20)
        self.record()
        self.assert_all(self.actual())
        self.assertLess(self.actual(), 200)


class V1Test(OtherInterfaceTest, FeedbackTestBase):
    """A kernel that counts the time of all tasks, and sums over the host."""

    INTERFACE = 'v1-throttle'

    def use(self, cpu):
        files = self.kernel.files
        path = (
            files.cgroup
            / 'cpuacct'
            / self.group().relative_to(files.cgroup / 'cpu')
        )
        path.mkdir(parents=True, exist_ok=True)
        used_ns = dict.fromkeys(range(self.CPUS), 0)
        used_ns[cpu] = self.used_us * 1000
        (path / 'cpuacct.usage_percpu').write_text(
            ' '.join(map(str, used_ns.values()))
        )


class SchedExtTest(OtherInterfaceTest, FeedbackTestBase):
    """A stock kernel with nova-rt-sched, which counts."""

    INTERFACE = 'v2-sched-ext'
