# SPDX-License-Identifier: Apache-2.0
"""Waits for the kernel, and how often it is read: by a fake clock."""

import errno

import fixtures

from nova_rt import exception
from nova_rt.host import cgroup, hcbs_files, host
from nova_rt.reservation.extra_specs import Numa, TaskPolicy
from nova_rt.tests.fixtures import deep
from nova_rt.tests.fixtures.requests import ask, claim
from nova_rt.tests.unit.host import base

RECORD = base.make_record(policy=TaskPolicy.OTHER)


class Clock(fixtures.Fixture):
    """A clock that moves when somebody waits.

    :ivar waited_s: how long in all
    :ivar then: what happens when somebody waits
    """

    def _setUp(self):
        self.now_s = 0.0
        self.waited_s = 0.0
        self.then = lambda: None
        for name, fake in (
            ('cgroup.time.monotonic', lambda: self.now_s),
            ('cgroup.time.sleep', self._sleep),
            ('host.monotonic', lambda: self.now_s),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'nova_rt.host.{name}', fake))

    def _sleep(self, seconds):
        self.now_s += seconds
        self.waited_s += seconds
        self.then()


class WaitingTest(base.HostTestCase):
    """On the kernel that says what it has; one container has just gone."""

    INTERFACE = 'v2-rt-max-cpu'
    PATIENCE_S = cgroup.PATIENCE_S

    def setUp(self):
        super().setUp()
        self._start(cpus=2)
        self.clock = self.useFixture(Clock())
        self.reads = 0
        read = hcbs_files.HCBSReader.read_supply

        def count(reader, partition):
            self.reads += 1
            return read(reader, partition)

        self.useFixture(
            fixtures.MockPatchObject(
                hcbs_files.HCBSReader, 'read_supply', count
            )
        )

    def _start(self, **kwargs):
        self.boot(**kwargs)
        self.host.start()
        self.kernel.add_container(7, 'web', (1,))
        self.host.apply(7, RECORD)

    def _leave_a_zombie(self):
        """The kernel holds what belongs to no group, for ever."""
        self.kernel.return_late(1e9)
        self.kernel.remove_container(7)

    def _end_zombie(self):
        self.kernel._reservations._gone.clear()
        self.kernel.let_time_pass()

    def test_reading_never_waits(self):
        self._leave_a_zombie()
        self.host.refresh()
        self.clock.now_s += 6
        self.assertEqual(299_999, self.host.free([]).cpus[1])
        self.assertEqual(299_999, self.host.capacity().cpus[1])
        self.assertEqual((0, 1), (self.clock.waited_s, self.reads))

    def test_bandwidth_of_a_server_that_was_just_deleted(self):
        """It is offered at once, and a claim waits for it."""
        before = self.host.capacity()
        self._leave_a_zombie()
        for _ in range(2):
            self.host.refresh()
            self.assertEqual(before, self.host.capacity())
            self.assertEqual(before, self.host.free([]))
        self.clock.then = self._end_zombie
        self.assertEqual((0, 1), self.host.place([], ask(2, 900_000)))
        self.assertEqual(cgroup.PAUSE_S, self.clock.waited_s)
        self.assertEqual(before, self.host.capacity())

    def test_claim_that_needs_no_zombie_does_not_wait(self):
        self.assertRaises(
            exception.InsufficientBandwidth,
            self.host.place, [], ask(2, 500_000),
        )  # fmt: skip
        self._leave_a_zombie()
        self.assertEqual((0,), self.host.place([], ask(1, 500_000)))
        self.assertEqual((0, 2), (self.clock.waited_s, self.reads))

    def test_refused_claim_waits_once(self):
        self._leave_a_zombie()
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            self.host.place,
            [],
            ask(2, 500_000),
        )
        self.assertEqual((900_000, 299_999), err.free_ppm)
        self.assertGreaterEqual(self.clock.waited_s, host._CLAIM_PATIENCE_S)
        self.assertLess(
            self.clock.waited_s, cgroup.PATIENCE_S + 2 * cgroup.PAUSE_S
        )

    def test_refused_claim_that_nothing_can_help_does_not_wait(self):
        """It would not fit if all of it came back."""
        self._leave_a_zombie()
        for claims, vcpus, ppm in (
            ([], 2, 900_001), ([], 3, 500_000),
            ([claim((0,), 900_000)], 2, 100_000),
        ):  # fmt: skip
            self.assertRaises(
                exception.InsufficientBandwidth,
                self.host.place, claims, ask(vcpus, ppm),
            )  # fmt: skip
        self.assertEqual(0, self.clock.waited_s)

    def test_what_comes_back_is_on_another_node(self):
        """As if it never came: nobody waits for it."""
        self._start(nodes=[(0, 1), (2, 3)])
        self._leave_a_zombie()
        claims = [claim((0,), 900_000), claim((2,), 900_000)]
        self.assertRaises(
            exception.InsufficientBandwidth,
            self.host.place, claims, ask(2, 500_000, Numa.SAME),
        )  # fmt: skip
        self.assertEqual(0, self.clock.waited_s)

    def test_reading_needs_no_lock_that_a_write_holds(self):
        """A container that is being started holds up no claim."""
        with self.host._lock:
            self.host.refresh()
            self.host.place([], ask(1, 500_000))

    def test_refused_container_holds_up_no_other(self):
        """The kernel's patience is spent without the host's lock."""
        self.kernel.add_container(8, 'full', (1,))
        self.kernel.add_container(9, 'web', (0,))
        other = base.make_record(cpus=(0,))
        self.clock.then = lambda: self.host.apply(9, other)
        before = self.kernel.writes.copy()
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, 8, RECORD
        )
        self.assertEqual((errno.EBUSY, True), (err.errno, err.verdict))
        self.assertGreaterEqual(self.clock.waited_s, cgroup.PATIENCE_S)
        self.assertIsNone(self.host.check(9, other))
        self.assertLess(len(before), len(self.kernel.writes))

    def test_container_waits_for_bandwidth_that_comes_back(self):
        self._leave_a_zombie()
        self.clock.then = self._end_zombie
        self.kernel.add_container(8, 'web', (1,))
        self.host.apply(8, RECORD)
        self.assertEqual(cgroup.PAUSE_S, self.clock.waited_s)

    def test_many_that_are_refused(self):
        """The first ones use up the patience of a round."""
        patience = cgroup.Patience()
        for pid in range(100, 120):
            self.kernel.add_container(pid, f'full{pid}', (1,))
            self.assertRaises(
                exception.ReservationNotApplied,
                self.host.apply, pid, RECORD, patience,
            )  # fmt: skip
        self.assertLess(
            self.clock.waited_s, cgroup.PATIENCE_S + 2 * cgroup.PAUSE_S
        )

    def test_groups_nested_deeper_than_any_path(self):
        """By the root of a plain container: it holds up no one, either."""
        group = self.kernel.add_container(8, 'plain', (0,))
        self.useFixture(
            deep.DeepGroups(
                group, {'cpu.rt.max': 'max 1000000\n', 'cgroup.threads': ''}
            )
        )
        # So that the kernel has more than is found, and all is looked at.
        self._leave_a_zombie()
        self.host.refresh()
        self.assertEqual(900_000, self.host.free([]).cpus[0])
        container = self.host._find(8)
        tasks = self.host._backend.read_tasks(container)
        self.assertEqual(self.kernel.tasks_of(8) | {8}, tasks)
