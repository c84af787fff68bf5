# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.host, each on every interface."""

import errno
import os
from unittest import mock

import fixtures

from nova_rt import exception
from nova_rt.host.interface import Usage
from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.extra_specs import Numa, TaskPolicy
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.fixtures.requests import ask
from nova_rt.tests.unit.host import base
from nova_rt.tests.unit.host.base import PID, make_record


class HostTestCase(base.HostTestCase):
    #: The kernel's answer to more than there is.
    FULL = errno.EINVAL

    def _start(self, rec=None, **kwargs):
        """A host with one container; the record that it is to have."""
        self.host.start()
        rec = rec or make_record()
        self.group = self.kernel.add_container(PID, 'web', rec.cpus, **kwargs)
        self.kernel.writes.clear()
        return rec

    def _not_applied(self, rec, number=0):
        err = self.not_applied(rec)
        self.assertEqual(number, err.errno)
        if number:
            self.assertIn(errno.errorcode[number], str(err))
        self.assertIsNotNone(self.host.check(PID, rec))
        return str(err)

    def _capacity(self):
        """As it is now."""
        self.host.refresh()
        return self.host.capacity()

    def _free(self, *claims):
        self.host.refresh()
        return self.host.free(claims)


class EveryInterface:
    """The behaviour of a host, whatever the kernel."""

    def test_apply(self):
        rec = self._start(make_record(cpus=(1, 3)))
        self.assertIn('expected 600/1000', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        held, cpus = kernel.read_held(self.host, PID)
        self.assertEqual(600_000, held.ppm)
        self.assertEqual((1, 3), cpus)
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual(self.POLICY, self.kernel.policy_of(tid))
        self.assertEqual((0, 0), self.kernel.policy_of(PID))
        self.kernel.writes.clear()
        self.host.apply(PID, rec)
        self.assertEqual([], self.kernel.writes)

    def test_difference_is_repaired(self):
        """Somebody takes the reservation, or the server has another one."""
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.reset(PID)
        for rec in (rec, make_record('300/2000')):
            self.assertIn(
                f'expected {rec.request.reservation} us',
                self.host.check(PID, rec),
            )
            self.host.apply(PID, rec)
            self.assertIsNone(self.host.check(PID, rec))

    def test_nodes(self):
        """Free and chosen CPUs, by nodes; v1 has room for one server only."""
        self.boot(nodes=[(0, 2), (1, 3)])
        self.host.start()
        nodes = {0: (0, 2), 1: (1, 3)}
        self.assertEqual(nodes, self._capacity().nodes)
        claim = make_record('400/1000', (0,))
        self.assertEqual(nodes, self._free(claim).nodes)
        for numa, cpus in (
            (Numa.PREFER, (1, 3)), (Numa.SAME, (1, 3)), (Numa.ANY, (1, 2))
        ):  # fmt: skip
            self.assertEqual(
                cpus, self.host.place([claim], ask(2, 200_000, numa))
            )
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            self.host.place, [claim], ask(3, 100_000, Numa.SAME),
        )  # fmt: skip
        self.assertIn('rt:numa=same', str(err))

    def test_placement(self):
        for placement, cpus in (
            ('worst_fit', (1,)), ('first_fit', (0,)), ('best_fit', (2,))
        ):  # fmt: skip
            self.host = self.make_host(placement=placement)
            self.host.start()
            claims = [
                make_record('100/1000', (0,)),
                make_record('300/1000', (2,)),
            ]
            self.assertEqual(placement, self._free(*claims).placement)
            self.assertEqual(cpus, self.host.place(claims, ask(1, 200_000)))

    def test_other(self):
        rec = self._start(make_record(policy=TaskPolicy.OTHER))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual((0, 0), self.kernel.policy_of(tid))
        self.assertFalse(self.host.give_missing_policy(PID, rec))

    def test_over_committed(self):
        self._start()
        self.kernel.add_container(8, 'other', (1,))
        self.host.apply(8, make_record('900/1000'))
        rec = make_record('100/1000')
        text = self._not_applied(rec, self.FULL)
        self.assertIn('reservation 100/1000 us on CPUs 1', text)
        self.assert_numbers(text)

    def assert_numbers(self, text):
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
        self.assertIn('expected 600/1000 us', text)
        self.assertIn('found 500/1000 us', text)

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
        text = self._not_applied(make_record(), errno.ENOENT)
        self.assertIn('not below the partition', text)

    def test_restart_touches_nothing(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.writes.clear()
        again = self.make_host()
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
        self.assertFalse(self.kernel.partition.exists())


class ByPolicy:
    """Tasks use the reservation by a real-time policy."""

    POLICY = os.SCHED_RR, 5

    def test_policy_that_a_program_chose(self):
        rec = self._start()
        self.host.apply(PID, rec)
        new = self.kernel.add_task(self.group)
        self.assertIsNone(self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertEqual((os.SCHED_RR, 5), self.kernel.policy_of(new))

    def test_policy_that_was_not_given(self):
        """nova-rt-compute was stopped between one and the other."""
        rec = self._start(make_record(policy=TaskPolicy.FIFO, priority=9))
        self.host.apply(PID, make_record(policy=TaskPolicy.OTHER))
        self.assertIsNone(self.host.check(PID, rec))
        self.assertTrue(self.host.give_missing_policy(PID, rec))
        for tid in self.kernel.tasks_of(PID):
            self.assertEqual((os.SCHED_FIFO, 9), self.kernel.policy_of(tid))
        self.assertFalse(self.host.give_missing_policy(PID, rec))

    def test_policies_that_tasks_chose(self):
        """A check does not look at them, and one is enough."""
        rec = self._start()
        self.host.apply(PID, rec)
        first, *others = self.kernel.tasks_of(PID)
        for tid in others:
            self.kernel.make_real_time(tid, os.SCHED_OTHER, 0)
        self.assertFalse(self.host.give_missing_policy(PID, rec))
        self.kernel.make_real_time(first, os.SCHED_OTHER, 0)
        self.assertIsNone(self.host.check(PID, rec))

    def test_policy_refused(self):
        rec = self._start()

        def refuse(*args):
            raise OSError(errno.EPERM, 'refused')

        files = self.kernel.files
        with fixtures.MockPatchObject(files, 'set_policy', refuse):
            err = self.assertRaises(
                exception.ReservationNotApplied, self.host.apply, PID, rec
            )
        self.assertEqual(errno.EPERM, err.errno)
        self.assertIn('the policy rr 5', str(err))


class V1ThrottlingTest(EveryInterface, ByPolicy, HostTestCase):
    INTERFACE = 'v1-throttle'

    def test_capacity_offered_and_kept_back(self):
        self.host = self.make_host(cpu_set='1-2', reserved_ppm=50_000)
        self.host.start()
        self.assertEqual(
            Capacity({1: 900_000, 2: 900_000}, 900_000), self.host.capacity()
        )
        self.host = self.make_host(reserved_ppm=1_000_000)
        self.host.start()
        self.assertEqual(0, self.host.capacity().total_ppm)

    def test_partition_of_the_operator(self):
        self.boot(partition='cloud')
        self.host = self.make_host(partition='/cloud')
        found = self.host.start()
        self.assertEqual(self.kernel.root / 'cloud', found.partition)

    def test_partition_lost_its_bandwidth(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.reset_partition()
        self.assertIsNotNone(self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIn('less than the 950000 ppm it was given', self.log.output)
        self.assertIsNone(self.host.check(PID, rec))

    def test_partition_lost_its_bandwidth_to_another(self):
        rec = self._start()
        self.kernel.reset_partition()
        other = self.kernel.root / 'user'
        self.kernel.make_group(other)
        self.kernel.write(other / 'cpu.rt_runtime_us', '500000')
        text = self._not_applied(rec, errno.EINVAL)
        self.assertIn('the partition lost its bandwidth', text)
        self.assertIn('EINVAL', text)


class HCBSTest(EveryInterface, ByPolicy, HostTestCase):
    """The kernel that says what it has; see kernel/ in this repository."""

    INTERFACE = 'v2-rt-max-cpu'
    FULL = errno.EBUSY

    def assert_numbers(self, text):
        self.assertIn(
            f'CPU 1 has 900000 ppm, groups in {self.kernel.partition} hold '
            '900000, others 0',
            text,
        )

    def _read(self, group, name='cpu.rt.max'):
        return (group / name).read_text().strip()

    def _share(self, name, text, cpus):
        """Somebody else's group."""
        group = self.kernel.root / name
        self.kernel.make_group(group)
        self.kernel.set_cpus(group, cpus)
        self.kernel.write(group / 'cpu.rt.max', text)
        return group

    def test_capacity(self):
        self.host = self.make_host(reserved_ppm=50_000)
        self.host.start()
        self.assertEqual(
            Capacity(dict.fromkeys(range(4), 850_000)), self._capacity()
        )

    def test_capacity_follows_others(self):
        """They reserve, and their deadline tasks count on every CPU."""
        self.host.start()
        self._share('user', '300000 1000000', (2, 3))
        self.assertEqual(
            {0: 900_000, 1: 900_000, 2: 600_000, 3: 600_000},
            self._capacity().cpus,
        )
        self.assertEqual({'user': 300_000}, self.host.capability.others)
        self.kernel.run_deadline_tasks(100_000)
        # The kernel rounds the tasks' bandwidth down.
        self.assertEqual(800_001, self._capacity().cpus[0])
        self.assertEqual(500_001, self._capacity().cpus[3])

    def test_others_take_everything(self):
        """No capacity, which is no error while the service runs."""
        self.host.start()
        self.kernel.take_off_line(3)
        self.assertEqual(
            [900_000] * 3 + [0], [*self._capacity().cpus.values()]
        )
        self.kernel.run_deadline_tasks(900_000)
        self.assertEqual(0, self._capacity().total_ppm)
        self.assertEqual(0, self._free().total_ppm)

    def test_cpu_that_the_operator_takes_from_the_partition(self):
        rec = self._start(make_record(cpus=(3,)))
        self.host.apply(PID, rec)
        self.assertEqual(set(), self.host.find_absent([rec]))
        self.kernel.set_cpus(self.kernel.partition, (0, 1, 2))
        self.assertEqual(0, self._capacity().cpus[3])
        self.assertEqual({3}, self.host.find_absent([rec]))
        self.kernel.set_cpus(self.kernel.partition, (0, 1, 2, 3))
        self.assertEqual(900_000, self._capacity().cpus[3])
        self.assertEqual(set(), self.host.find_absent([rec]))

    def test_own_containers_are_no_others(self):
        rec = self._start(nested=('libvirt',))
        self.host.apply(PID, rec)
        self.assertEqual(900_000, self._capacity().cpus[1])
        self.assertEqual(
            {0: 900_000, 1: 300_000, 2: 900_000, 3: 900_000},
            self._free(rec).cpus,
        )

    def test_free_is_no_more_than_the_kernel_has(self):
        """Something in the partition holds what nobody claims."""
        self.host.start()
        group = self.kernel.add_container(8, 'plain', (1,))
        self.kernel.write(group / 'cpu.rt.max', '200 1000')
        self.assertEqual(700_000, self._free().cpus[1])
        # Claimed, but not started.
        claim = make_record('600/1000', (2,))
        self.assertEqual(300_000, self._free(claim).cpus[2])

    def test_what_is_nowhere_to_be_found_counts(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.return_late(60)
        self.kernel.remove_container(PID)
        # For longer than it is expected back.
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.host.host._EXPECTED_S', -1)
        )
        # Rounded up.
        self.assertEqual(299_999, self._capacity().cpus[1])
        self.assertEqual({'(no group)': 600_001}, self.host.capability.others)

    def test_admission_switched_off(self):
        """The kernel would take anything, and guarantee nothing."""
        self.boot(limit_us=-1)
        err = self.assertRaises(exception.HostNotPrepared, self.host.start)
        self.assertIn('sched_rt_runtime_us is -1', str(err))

    def test_cannot_read_what_is_left(self):
        self.host.start()
        (self.kernel.root / 'cpu.rt.effective').unlink()
        self.assertRaises(exception.HostNotPrepared, self.host.refresh)

    def test_partition_with_a_reservation(self):
        """Set aside by the operator: a bound, on the CPUs it is on."""
        self.kernel.enable(self.kernel.root)
        self.kernel.make_group(self.kernel.partition)
        self.kernel.set_cpus(self.kernel.partition, (1, 2))
        max_ = self.kernel.partition / 'cpu.rt.max'
        self.kernel.write(max_, '400000 1000000')
        self._share('user', '500000 1000000', (1,))
        rec = self._start(make_record('300/1000'))
        self.host.apply(PID, rec)
        self.assertEqual(
            {0: 0, 1: 400_000, 2: 400_000, 3: 0}, self._capacity().cpus
        )
        self.assertEqual(100_000, self._free(rec).cpus[1])
        self.kernel.add_container(8, 'other', (1,))
        err = self.assertRaises(
            exception.ReservationNotApplied,
            self.host.apply, 8, make_record('200/1000'),
        )  # fmt: skip
        self.assertEqual(errno.EINVAL, err.errno)
        self.assertIn('CPU 1 has 400000 ppm', str(err))

    def test_reserved_where_the_cpus_are(self):
        """With systemd, libvirt confines the group in the scope.

        If the scope is confined, all that is in it lives on its reservation.
        """
        rec = self._start(make_record(cpus=(1, 3)), nested=('libvirt',))
        self.host.apply(PID, rec)
        self.assertEqual('600 1000', self._read(self.group))
        self.assertEqual('max 1000000', self._read(self.group.parent))
        self.assertEqual(
            '1 runtime_ns=600000 period_ns=1000000\n'
            '3 runtime_ns=600000 period_ns=1000000',
            self._read(self.group, 'cpu.rt.effective'),
        )
        group = self.kernel.add_container(8, 'b', (2,), nested=('libvirt',))
        self.kernel.set_cpus(group.parent, (2,))
        self.host.apply(8, make_record(cpus=(2,)))
        self.assertEqual('600 1000', self._read(group.parent))
        self.assertEqual('max 1000000', self._read(group))

    def test_reservation_on_the_wrong_level(self):
        rec = self._start(nested=('libvirt',))
        self.kernel.write(self.group.parent / 'cpu.rt.max', '600 1000')
        self.kernel.files.set_policy(self.group, PID, os.SCHED_RR, 5)
        self.kernel.files.write_aside(self.group / 'cpu.rt.max', '600 1000')
        self.assertIn('expected nothing', self.host.check(PID, rec))
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        self.assertEqual(
            '0 ceiling_ppm=900000 reserved_ppm=0',
            self._read(self.kernel.root, 'cpu.rt.effective').splitlines()[0],
        )

    def test_groups_in_the_container_live_on_it(self):
        rec = self._start()
        inside = self.group / 'init.scope'
        self.kernel.enable(self.group)
        self.kernel.make_group(inside)
        task = self.kernel.add_task(inside)
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))
        self.assertEqual((os.SCHED_RR, 5), self.kernel.policy_of(task))

    def test_container_divides_its_reservation(self):
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.enable(self.group)
        inside = self.group / 'control'
        self.kernel.make_group(inside)
        self.kernel.write(inside / 'cpu.rt.max', '333 1111')
        self.assertIn('runtime_ns=300', self._read(
            self.group, 'cpu.rt.effective'))  # fmt: skip
        self.assertIsNone(self.host.check(PID, rec))

    def test_kernel_reports_something_else(self):
        rec = self._start(make_record(cpus=(1, 3)))
        self.host.apply(PID, rec)
        line = '{} runtime_ns=600000 period_ns=1000000\n'
        one = line.format(1)
        for report, text in (
            (one, 'expected 600000/1000000 ns on CPU 3, found nothing'),
            # A rounding.
            (one + '3 runtime_ns=599999 period_ns=1000000\n', None),
            (one + '3 runtime_ns=590000 period_ns=1000000\n',
             'on CPU 3, found 590000/1000000 ns'),
            (one + line.format(2) + line.format(3),
             'on CPU 2, to have none there'),
            ('1 budget=3\n', 'EIO'),
        ):  # fmt: skip
            (self.group / 'cpu.rt.effective').write_text(report)
            found = self.host.check(PID, rec)
            if text is None:
                self.assertIsNone(found)
            else:
                self.assertIn(text, found)

    def test_usage(self):
        rec = self._start(make_record(cpus=(1, 3)), nested=('libvirt',))
        self.assertEqual({}, self.host.read_usage(PID))
        self.host.apply(PID, rec)
        self.kernel.use(self.group, 3, 10, 4, 5500)
        self.assertEqual(
            {1: Usage(0, 0, 0), 3: Usage(10, 4, 5500)},
            self.host.read_usage(PID),
        )

    def test_usage_of_a_group_that_goes_meanwhile(self):
        self.host.apply(PID, self._start())
        other = self.kernel.add_container(8, 'other', (2,))
        self.host.apply(8, make_record('100/1000', (2,)))
        self.assertEqual(2, len(self.host.read_usages()))
        read = self.kernel.files.read

        def go(path):
            if path == other / 'cpu.rt.stat':
                self.kernel.remove_container(8)
            return read(path)

        with mock.patch.object(self.kernel.files, 'read', go):
            ((name, _, _),) = self.host.read_usages()
        self.assertEqual(self.group.name, name)

    def test_controller_is_enabled_again(self):
        """systemd may take it away where nothing needs it."""
        rec = self._start(nested=('libvirt',))
        for group in (self.group.parent, self.group):
            (group.parent / 'cgroup.subtree_control').write_text('\n')
            for name in ('max', 'effective', 'stat'):
                (group / f'cpu.rt.{name}').unlink()
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_the_probe_needs_every_cpu(self):
        """It has no cpuset: where one is full, nothing is tried."""
        self.host.start()
        self.kernel.add_container(8, 'full', (2,))
        self.host.apply(8, make_record('900/1000', (2,)))
        self.kernel.writes.clear()
        self.make_host().start()
        self.assertEqual([], self.kernel.writes)


class SchedExtTest(EveryInterface, HostTestCase):
    INTERFACE = 'v2-sched-ext'
    FULL = errno.EBUSY
    #: Tasks stay ordinary ones.
    POLICY = os.SCHED_OTHER, 0

    def assert_numbers(self, text):
        self.assertIn('asked=106000 free=44000 rule=asked<=free cpu=1', text)
        self.assertIn('CPU 1 has 950000 ppm, groups hold 906000', text)

    def test_capacity(self):
        self.host.start()
        self.assertEqual(
            Capacity(dict.fromkeys(range(4), 950_000), overhead_us=6),
            self.host.capacity(),
        )

    def test_overhead_is_claimed(self):
        """A stopped server will fit again: its claim is what it will cost."""
        self.host.start()
        claim = make_record('900/1000', (1,))
        self.assertEqual(950_000 - 906_000, self._free(claim).cpus[1])
        everywhere = [make_record('900/1000', (cpu,)) for cpu in range(4)]
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            self.host.place, everywhere, make_record('40/1000').request,
        )  # fmt: skip
        self.assertIn('asked 46000 ppm', str(err))
        self.assertIn('6 us of each period are overhead', str(err))
        self.host.place(everywhere, make_record('38/1000').request)

    def test_other_groups(self):
        self.kernel.make_group(self.kernel.root / 'other')
        self.kernel.enable(self.kernel.root)
        self.kernel.daemon.answer('set /other 100 1000 0-1')
        found = self.host.start()
        self.assertEqual({'other': 106_000}, found.others)
        self.assertEqual(
            {0: 844_000, 1: 844_000, 2: 950_000, 3: 950_000},
            self._capacity().cpus,
        )

    def test_usage(self):
        rec = self._start()
        self.assertEqual({}, self.host.read_usage(PID))
        self.host.apply(PID, rec)
        self.kernel.use(self.group, 1, 9, 3, 5000)
        usage = {1: Usage(9, 3, 5000)}
        self.assertEqual(usage, self.host.read_usage(PID))
        source = self.host.find_usage(PID)
        self.assertEqual(usage, source.read())
        with mock.patch.object(
            self.kernel.daemon, '_stat', return_value=['server cpu=1']
        ):
            err = self.assertRaises(OSError, source.read)
        self.assertEqual(errno.EIO, err.errno)
        ((name, share, usage),) = self.host.read_usages()
        self.assertEqual(self.group.name, name)
        self.assertEqual(600_000, share.ppm)
        self.assertEqual({1: Usage(9, 3, 5000)}, usage)

    def test_daemon_ends(self):
        """The container runs on, and a check cannot tell."""
        rec = self._start()
        self.host.apply(PID, rec)
        self.kernel.stop_daemon()
        self.assertIn('nova-rt-sched does not run', self.host.check(PID, rec))
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, PID, rec
        )
        self.assertFalse(err.verdict)
        self.assertRaises(exception.HostNotPrepared, self.host.refresh)
        self.kernel.daemon.held.clear()
        self.kernel.start_daemon()
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_daemon_does_not_answer(self):
        path = self.kernel.files.run / 'nova-rt-sched/socket'
        self.kernel.stop_daemon()
        path.touch()
        err = self.assertRaises(exception.NoRTInterface, self.host.look)
        self.assertIn('nova-rt-sched does not run', str(err))

    def test_controller_is_enabled_again(self):
        """systemd may take it away where nothing needs it."""
        rec = self._start(nested=('libvirt',))
        for group in (self.group.parent, self.group):
            (group.parent / 'cgroup.subtree_control').write_text('\n')
        self.host.apply(PID, rec)
        self.assertIsNone(self.host.check(PID, rec))

    def test_daemon_of_another_version(self):
        """An answer without its numbers is EIO, and stops nothing else."""
        rec = self._start()
        for request, method in (
            ('_status', self.host.refresh),
            ('_cpus', self.host.refresh),
            ('_list', lambda: self.host.apply(PID, rec)),
            ('_list', self.host.refresh),
        ):
            with mock.patch.object(
                self.kernel.daemon, request, return_value=['x cpu=1']
            ):
                err = self.assertRaises(
                    (
                        exception.HostNotPrepared,
                        exception.ReservationNotApplied,
                    ),
                    method,
                )
            self.assertIn(f'another version: {request[1:]} reads', str(err))
        self.host.apply(PID, rec)

    def test_numbers_that_the_daemon_does_not_take(self):
        rec = self._start()
        for text, what in (
            ('100/150', 'asked=150 least=200'),
            ('40/1000', 'asked=40 least=50'),
            ('1000/2000000', 'asked=2000000 most=1000000'),
            ('1000/300000', 'asked=3354 least=5000'),
        ):
            refused = self._not_applied(make_record(text), errno.EINVAL)
            self.assertIn(what, refused)
        self.host.apply(PID, rec)
