# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.host, each on every interface."""

import errno
import os

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.admission import Capacity
from nova_rt.extra_specs import Policy, Request
from nova_rt.record import Record
from nova_rt.reservation import Reservation
from nova_rt.tests.fixtures import kernel
from nova_rt.virt import host

PID = 7


def _record(text='600/1000', cpus=(1,), policy=Policy.RR, priority=5):
    request = Request(
        Reservation.parse(text), len(cpus), policy=policy, priority=priority
    )
    return Record(request, cpus)


class HostTestCase(base.BaseTestCase):
    INTERFACE = 'v1-throttle'

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.virt.cgroup.PATIENCE_S', 0)
        )
        self.log = self.useFixture(fixtures.FakeLogger())
        self.kernel = self.useFixture(kernel.FakeKernel(self.INTERFACE))
        self.host = self._host()

    def _host(self, **kwargs):
        options = {
            'cpu_set': None, 'smt': False, 'reserved_ppm': 0,
            'partition': None, 'files': self.kernel.files, **kwargs,
        }  # fmt: skip
        return host.Host(**options)

    def _start(self, rec=None, **kwargs):
        """A host with one container; the record that it is to have."""
        self.host.start()
        rec = rec or _record()
        self.group = self.kernel.add_container(PID, 'web', rec.cpus, **kwargs)
        self.kernel.writes.clear()
        return rec

    def _not_applied(self, rec, number=0):
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, PID, rec
        )
        self.assertEqual(number, err.errno)
        if number:
            self.assertIn(errno.errorcode[number], str(err))
        self.assertIsNotNone(self.host.check(PID, rec))
        return str(err)


class EveryInterface:
    """What a host does whatever the kernel."""

    def test_apply(self):
        rec = self._start(_record(cpus=(1, 3)))
        self.assertIn('was to hold 600/1000', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        held, cpus = self.host.read(PID)
        self.assertEqual(600_000, held.on(1))
        self.assertEqual((1, 3), cpus)
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual((os.SCHED_RR, 5), self.kernel.policy_of(tid))
        self.assertEqual((0, 0), self.kernel.policy_of(PID))

    def test_apply_again_writes_nothing(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.writes.clear()
        self.host.apply(PID, rec)
        self.assertEqual([], self.kernel.writes)

    def test_levels_above_the_tasks(self):
        """As with systemd, where libvirt nests a group in the scope."""
        rec = self._start(nested=('libvirt',))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_fifo(self):
        rec = self._start(_record(policy=Policy.FIFO, priority=9))
        self.host.apply(PID, rec)
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(tid))

    def test_other(self):
        rec = self._start(_record(policy=Policy.OTHER))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual((0, 0), self.kernel.policy_of(tid))

    def test_policy_that_a_program_chose(self):
        rec = self._start()
        self.host.apply(PID, rec)
        new = self.kernel.add_task(self.group)
        self.assertIsNone(self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertEqual((os.SCHED_RR, 5), self.kernel.policy_of(new))

    def test_policy_that_was_not_given(self):
        """nova-rt-compute was stopped between one and the other."""
        rec = self._start()
        self.host.apply(PID, _record(policy=Policy.OTHER))
        self.assertIn('none of 2 is real-time', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_drift(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.reset(PID)
        self.assertIn('was to hold', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_another_reservation(self):
        rec = self._start()
        self.host.apply(PID, rec)
        rec = _record('300/2000')
        self.assertIn('300/2000 us', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_partition_lost_its_bandwidth(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.reset_partition()
        self.assertIsNotNone(self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIn('not the 950000 ppm it was given', self.log.output)
        self.assertIsNone(self.host.check(PID, rec))

    def test_partition_lost_its_bandwidth_to_another(self):
        rec = self._start()
        self.kernel.reset_partition()
        other = self.kernel.root / 'user'
        self.kernel.make_group(other)
        share = self.host._tree.interface.wish(500_000, 1_000_000, range(4))
        self.host._tree.hold([other], share)
        text = self._not_applied(rec)
        self.assertIn('the partition lost its bandwidth', text)
        self.assertIn('EINVAL', text)

    def test_over_committed(self):
        self._start()
        self.kernel.add_container(8, 'other', (1,))
        self.host.apply(8, _record('900/1000'))
        rec = _record('100/1000')
        text = self._not_applied(rec, errno.EINVAL)
        self.assertIn('reservation 100/1000 us on CPUs 1', text)
        self.assertIn('the groups in it 900000 ppm', text)
        self.assertIn('holds 950000/1000000 us', text)

    def test_kernel_answers(self):
        rec = self._start()
        for number, advice in (
            (errno.EINVAL, 'more bandwidth than is free'),
            (errno.EBUSY, 'promised the bandwidth already'),
            (errno.EPERM, 'CAP_SYS_NICE'),
            (errno.EACCES, 'nova_rt_privileged'),
        ):
            self.kernel.refuse(number)
            self.assertIn(advice, self._not_applied(rec, number))

    def test_reads_back_otherwise(self):
        rec = self._start()
        self.kernel.falsify(500)
        text = self._not_applied(rec)
        self.assertIn('was to hold 600/1000 us', text)
        self.assertIn('holds 500/1000 us', text)

    def test_group_gone_in_between(self):
        rec = self._start()
        self.kernel.vanish()
        text = self._not_applied(rec, errno.ENOENT)
        self.assertIn('the container has ended', text)

    def test_process_gone(self):
        rec = self._start()
        self.kernel.remove_container(PID)
        self.assertIn(f'{PID}/cgroup', self._not_applied(rec, errno.ENOENT))

    def test_no_container_of_the_partition(self):
        """A process of the host must not be given a reservation."""
        self.host.start()
        self.kernel.add_task(self.kernel.root, PID)
        path = self.kernel.files.proc / str(PID) / 'cgroup'
        path.write_text('4:cpu:/\n3:cpuset:/\n0::/\n')
        text = self._not_applied(_record(), errno.ENOENT)
        self.assertIn('not below the partition', text)

    def test_other_cpus(self):
        """Pinning is libvirt's; a reservation elsewhere is none."""
        self._start()
        rec = _record(cpus=(2,))
        text = self._not_applied(rec)
        self.assertIn('was to run on CPUs 2 and may run on 1', text)

    def test_policy_refused(self):
        rec = self._start()

        def refuse(*args):
            raise OSError(errno.EPERM, 'refused')

        files = self.kernel.files
        with fixtures.MockPatchObject(files, 'set_policy', refuse):
            text = self._not_applied(rec, errno.EPERM)
        self.assertIn('the policy rr 5', text)

    def test_bandwidth_is_there_again_after_the_end(self):
        rec = self._start(_record('900/1000'))
        self.host.apply(PID, rec)
        self.kernel.remove_container(PID)
        self.kernel.add_container(8, 'next', rec.cpus)
        self.host.apply(8, rec)
        self.assertIsNone(self.host.check(8, rec))

    def test_restart_touches_nothing(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.writes.clear()
        again = self._host()
        again.start()
        self.assertEqual(self.host.capability, again.capability)
        self.assertIsNone(again.check(PID, rec))
        touched = {
            path.parent.name
            for path, _ in self.kernel.writes
            if not path.parent.name.startswith('nova-rt-probe-')
        }
        self.assertEqual(set(), touched)

    def test_looking_writes_nothing(self):
        found = self.host.look()
        self.assertFalse(found.prepared)
        self.assertEqual([], self.kernel.writes)


class V1ThrottleTest(EveryInterface, HostTestCase):
    INTERFACE = 'v1-throttle'

    def test_capacity(self):
        self.host.start()
        self.assertEqual(
            Capacity(dict.fromkeys(range(4), 950_000), 950_000),
            self.host.capacity(),
        )

    def test_capacity_offered_and_kept_back(self):
        self.host = self._host(cpu_set='1-2', reserved_ppm=50_000)
        self.host.start()
        self.assertEqual(
            Capacity({1: 900_000, 2: 900_000}, 900_000), self.host.capacity()
        )

    def test_more_kept_back_than_there_is(self):
        self.host = self._host(reserved_ppm=1_000_000)
        self.host.start()
        self.assertEqual(0, self.host.capacity().total_ppm)

    def test_partition_of_the_operator(self):
        self.host = self._host(partition='/cloud')
        found = self.host.start()
        self.assertEqual(self.kernel.root / 'cloud', found.partition)

    def test_cpu_set_that_is_not_there(self):
        self.host = self._host(cpu_set='4')
        self.assertRaises(exception.HostNotPrepared, self.host.start)

    def test_no_interface(self):
        other = self.useFixture(kernel.FakeKernel('none'))
        self.host = self._host(files=other.files)
        self.assertRaises(exception.NoRTInterface, self.host.start)


class V1HcbsMultiTest(EveryInterface, HostTestCase):
    INTERFACE = 'v1-hcbs-multi'

    def test_capacity(self):
        self.host = self._host(reserved_ppm=50_000)
        self.host.start()
        self.assertEqual(
            Capacity(dict.fromkeys(range(4), 900_000)), self.host.capacity()
        )

    def test_other_cpus_are_left(self):
        rec = self._start(_record(cpus=(1,)))
        self.host.apply(PID, rec)
        self.kernel.add_container(8, 'other', (2,))
        self.host.apply(8, _record('900/1000', (2,)))
        self.assertIsNone(self.host.check(PID, rec))


class V2HcbsScalarTest(EveryInterface, HostTestCase):
    INTERFACE = 'v2-hcbs-scalar'


class V2HcbsMultiTest(V1HcbsMultiTest):
    INTERFACE = 'v2-hcbs-multi'


class V2RtMaxTest(EveryInterface, HostTestCase):
    INTERFACE = 'v2-rt-max'
