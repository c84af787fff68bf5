# SPDX-License-Identifier: Apache-2.0
"""Servers have more runtime while they start.

The thread of the boosts does not run: the tests take its steps, with a clock
of their own.
"""

import errno

import fixtures
from nova.tests.fixtures import libvirt
from oslo_concurrency import lockutils

from nova_rt import events
from nova_rt.compute import boosts, feedback
from nova_rt.formats.changes import Condition
from nova_rt.formats.counts import Adaptation
from nova_rt.lxc import domains
from nova_rt.tests.functional import base, changes


class BoostTestBase(changes.ChangesTestBase):
    SPECS = {'startup_runtime': '800', 'startup_s': '60'}

    def setUp(self):
        for owner in (boosts.Boosts, feedback.Feedback):
            self.useFixture(
                fixtures.MockPatchObject(owner, 'start', lambda each: None)
            )
        # Nova's libvirt for tests has a number of its own.
        self.useFixture(
            fixtures.MockPatchObject(
                domains.libvirt, 'VIR_ERR_NO_DOMAIN', libvirt.VIR_ERR_NO_DOMAIN
            )
        )
        super().setUp()
        self._delete_server(self.server)
        self.counts, self.told = [], []
        self.now_s = 1000.0
        self.take_over(self.host)
        self.flavor = self.rt_flavor('400/1000', **self.SPECS)
        self.server = self.create(self.flavor, host=self.host)

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
        self.reservations(host).dispatcher.subscribe(self._note)
        with fixtures.MockPatch(
            'nova_rt.lxc.ages.read_age_s', return_value=age_s
        ):
            self.boosts.resume_all()

    def _note(self, event):
        if isinstance(event, events.Boosted | events.Unboosted):
            self.told.append(event)

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

    def assert_over(self, own=400):
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
        if published:
            return self.published(self.host)[cpu]
        return self.reservations(self.host).free().cpus[cpu]

    def start_again(self):
        self._stop_server(self.server)
        self._start_server(self.server)

    def restart(self, age_s=0):
        self.restart_compute_service(self.host)
        self.take_over(self.host, age_s)
        self.assertEqual(0, self.repairs(self.host))


class BoostTest(BoostTestBase):
    def test_create(self):
        before = self.free_on_its_cpu(published=True)
        self.boost()
        # For others, it is free.
        self.assertEqual(before, self.free_on_its_cpu())
        self.audit_host(self.host)
        self.assertEqual(before, self.free_on_its_cpu(published=True))
        self.go_on(59.9)
        self.assert_runtimes(800)
        self.go_on(0.1)
        # The kernel holds used bandwidth until the end of its period.
        self.assert_runtimes(400, 800)
        self.go_on(0.001)
        self.assert_over()
        self.assertEqual(
            ['it was 400/1000', 'it was 800/1000'],
            [each.details for each in self.told],
        )
        self.assertEqual(before, self.free_on_its_cpu(published=True))
        self.assertEqual([Adaptation.BOOSTED], self.counts)

    def test_others_come_to_other_cpus(self):
        self.boost()
        cpus = self.record_of(self.server).cpus
        for each in self.fill('300/1000', 4):
            self.assertNotEqual(cpus, self.record_of(each).cpus)
        self.assert_runtimes(800)

    def fill_but_its_cpu(self):
        return self.fill('900/1000', 3)

    def test_gives_way(self):
        """Nobody is refused for a boost."""
        self.fill_but_its_cpu()
        self.boost()
        (other,) = self.fill('500/1000', 1)
        self.assertEqual(
            self.record_of(self.server).cpus, self.record_of(other).cpus
        )
        self.assert_runtimes(400)
        self.go_on(2)
        self.assert_over()
        self.assertEqual([Adaptation.BOOSTED, Adaptation.YIELDED], self.counts)
        self.assertEqual(
            [('boosted', 800), ('unboosted', 400)],
            [(each.kind, each.held.request.reservation.runtime_us)
             for each in self.told],
        )  # fmt: skip
        # It gets nothing by starting again.
        self.hard_reboot(self.server)
        self.go_on()
        self.assert_over()

    def test_gives_way_to_a_change(self):
        others = self.fill_but_its_cpu()
        other = self.create(self.rt_flavor('100/1000'), host=self.host)
        self.boost()
        self.change(other, '500/1000')
        self.assert_runtimes(400)
        for each in others:
            self.assert_held(each, self.host)

    def test_two_give_way(self):
        """A claim takes from each what it needs."""
        self.fill('900/1000', 3)
        self._delete_server(self.server)
        specs = {'startup_runtime': '500', 'startup_s': '60'}
        flavor = self.rt_flavor('100/1000', **specs)
        boosted = [self.create(flavor, host=self.host) for _ in range(2)]
        # The second has what the first leaves.
        for _ in range(2):
            self.go_on(2)
        first, second = (self.held(each, self.host)[0] for each in boosted)
        self.assertEqual(500, first.runtime_us)
        self.assertLess(100, second.runtime_us)
        (other,) = self.fill('700/1000', 1)
        self.assert_held(other, self.host)
        for each in boosted:
            share, _ = self.held(each, self.host)
            self.assertEqual(100, share.runtime_us)
        self.verify()

    def test_gives_way_before_it_began(self):
        """A claim comes between that of the boost and its write."""
        self.fill_but_its_cpu()
        adapting = self.computes[self.host].driver.running.adapting
        adapt = adapting.adapt

        def come_between(*args):
            patch.cleanUp()
            self.fill('500/1000', 1)
            return adapt(*args)

        patch = fixtures.MockPatchObject(
            adapting, 'adapt', side_effect=come_between
        )
        patch.setUp()
        self.go_on()
        self.assert_runtimes(400)
        self.go_on(0.1)
        self.assert_over()

    def test_gives_way_before_its_release(self):
        self.fill_but_its_cpu()
        self.boost()
        self.go_on(60)
        self.assert_runtimes(400, 800)
        self.fill('500/1000', 1)
        self.assert_runtimes(400)
        self.go_on(1)
        self.assert_over()

    def test_cannot_give_way(self):
        """A claim is refused while others write to the container."""
        self.fill_but_its_cpu()
        self.boost()
        self.useFixture(fixtures.MockPatchObject(boosts.time, 'sleep'))
        with lockutils.lock(f'nova_rt-container-{self.server["id"]}'):
            refused = self.create(
                self.rt_flavor('500/1000'), host=self.host, state='ERROR'
            )
        self.assertIn('500000 ppm', base.fault_of(self.api.get_server(
            refused['id'])))  # fmt: skip
        self.assert_runtimes(800)

    def test_the_kernel_does_not_give_way(self):
        self.fill_but_its_cpu()
        self.boost()
        self.refuse_writes(errno.EBUSY, self.host)
        self.create(self.rt_flavor('500/1000'), host=self.host, state='ERROR')
        self.refuse_writes(0, self.host)
        self.assert_runtimes(800)

    def test_stopped_gives_way(self):
        """A claim sees that it has stopped before the thread does."""
        self.fill_but_its_cpu()
        self.boost()
        self._stop_server(self.server)
        self.fill('500/1000', 1)
        self.assertEqual(400, self.claimed())
        self._start_server(self.server)
        self.go_on()
        self.assert_over()

    def test_partial(self):
        """It gets what is free on its CPU."""
        self.fill(f'{self.free_on_its_cpu() // 1000 - 50}/1000', 4)
        room_us = self.free_on_its_cpu() // 1000
        self.assertLess(0, room_us)
        self.assertLess(room_us, 400)
        self.go_on()
        self.assert_runtimes(400 + room_us)
        self.assertEqual([Adaptation.LIMITED, Adaptation.BOOSTED], self.counts)

    def test_no_room(self):
        """It starts with its own reservation, and keeps that."""
        others = self.fill(f'{self.free_on_its_cpu() // 1000}/1000', 4)
        self.assertEqual(0, self.free_on_its_cpu() // 1000)
        self.go_on()
        self.assert_over()
        self.assertEqual([Adaptation.LIMITED], self.counts)
        for each in others:
            self._delete_server(each)
        self.go_on(10)
        self.assert_over()

    def test_before_the_first_audit(self):
        """Nova starts servers after a boot of the host, and audits then."""
        reservations = self.reservations(self.host)
        reservations._audited = False
        self.go_on()
        self.assert_runtimes(400)
        reservations._audited = True
        self.go_on(2)
        self.assert_runtimes(800)

    def test_each_start(self):
        self.boost()
        self.hard_reboot(self.server)
        self.assert_runtimes(400)
        self.boost()
        self.go_on(60)
        self.go_on(1)
        self.assert_over()
        self.start_again()
        self.boost()

    def test_stopped(self):
        self.boost()
        self._stop_server(self.server)
        self.go_on(2)
        self.assertEqual(400, self.claimed())
        self._start_server(self.server)
        self.boost()

    def test_deleted(self):
        self.boost()
        self._delete_server(self.server)
        self.go_on(2)
        self.assertFalse(self.boosts.has(self.server['id']))
        self.assertEqual([], self.all_claims(self.host))

    def test_moved_on_its_host_while_stopped(self):
        """The thread looks again when all is over."""
        self.boost()
        self._stop_server(self.server)
        self.stay(self.host)
        self.resize(self.server, self.rt_flavor('300/1000', **self.SPECS))
        self.api.post_server_action(self.server['id'], {'confirmResize': None})
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.go_on(2)
        self.assertEqual(300, self.claimed())
        self.assertIsNone(
            self.reservations(self.host).held.get_adapted(self.server['id'])
        )

    def test_others_write(self):
        """It waits for the lock of the container."""
        with lockutils.lock(f'nova_rt-container-{self.server["id"]}'):
            self.go_on()
        self.assertEqual((400, 800), (self.actual(), self.claimed()))
        self.go_on(0.1)
        self.assert_runtimes(800)
        with lockutils.lock(f'nova_rt-container-{self.server["id"]}'):
            self.go_on(60)
        self.assert_runtimes(800)
        self.go_on(2)
        self.go_on(1)
        self.assert_over()

    def test_others_write_too_long(self):
        with lockutils.lock(f'nova_rt-container-{self.server["id"]}'):
            self.go_on()
        self.go_on(60)
        self.go_on(1)
        self.assert_over()

    def test_the_kernel_refuses(self):
        self.refuse_writes(errno.EBUSY, self.host)
        self.go_on()
        self.assertEqual((400, 800), (self.actual(), self.claimed()))
        self.assertEqual([Adaptation.REFUSED], self.counts)
        self.refuse_writes(0, self.host)
        self.go_on(5)
        self.go_on(1)
        self.assert_over()

    # Changes and moves

    def test_changed(self):
        """A change ends the boost, whatever it asks for."""
        for wish in (300, 600, 800, 400):
            with self.case(wish):
                self.start_again()
                self.go_on()
                self.change(self.server, f'{wish}/1000')
                self.go_on(2)
                self.assert_over(own=wish)
                self.go_on(60)
                self.assert_over(own=wish)

    def test_changed_before_it_began(self):
        self.change(self.server, '300/1000')
        self.go_on()
        self.assert_over(own=300)
        # Later starts are as the first one.
        self.hard_reboot(self.server)
        self.go_on()
        self.assert_runtimes(800, own=300)

    def test_changed_at_its_end(self):
        self.boost()
        self.go_on(60)
        self.change(self.server, '300/1000')
        self.go_on(1)
        self.assert_over(own=300)

    def test_change_refused(self):
        """The boost goes on."""
        self.boost()
        self.change(self.server, '990/1000', Condition.INFEASIBLE)
        self.go_on(2)
        self.assert_runtimes(800)
        self.go_on(60)
        self.go_on(1)
        self.assert_over()

    def test_change_refused_by_placement(self):
        """The boost goes on, although the host had room."""
        self.boost()
        self.take_in_placement(but=500_000)
        self.change(self.server, '600/1000', Condition.DEFERRED)
        self.go_on(2)
        self.assert_runtimes(800)
        self.go_on(60)
        self.go_on(1)
        self.assert_runtimes(400)

    def test_moved(self):
        self.boost()
        old = self.host
        self.migrate(self.server)
        self.go_on(2)
        (claim,) = self.reservations(old).held.claims()[self.server['id']]
        self.assertEqual(400_000, claim.ppm)
        self.assertFalse(self.boosts.has(self.server['id']))
        self.confirm(self.server)
        self.assertEqual([], self.all_claims(old))
        self.start_on(self.other(old))

    def start_on(self, host):
        """The start of the server on a host is its own."""
        self.take_over(host)
        self.hard_reboot(self.server)
        self.boost()

    def test_moved_back(self):
        self.boost()
        old = self.host
        self.migrate(self.server)
        self.revert(self.server)
        self.assertEqual([], self.all_claims(self.other(old)))
        self.boost()

    def test_resized(self):
        """On its host, the new reservation is boosted after the move."""
        self.boost()
        self.stay(self.host)
        self.resize(self.server, self.rt_flavor('300/1000', **self.SPECS))
        self.go_on(2)
        self.assertEqual(300, self.actual())
        self.confirm(self.server)
        self.go_on(2)
        self.assert_runtimes(800, own=300)

    def test_resized_to_a_flavor_without(self):
        self.boost()
        self.stay(self.host)
        self.resize(self.server, self.rt_flavor('300/1000'))
        self.confirm(self.server)
        self.go_on(2)
        self.assert_over(own=300)

    # Restarts

    def test_restart(self):
        """The boost goes on, and ends in time."""
        self.boost()
        self.restart(age_s=20)
        self.assert_runtimes(800)
        self.go_on(39)
        self.assert_runtimes(800)
        self.go_on(1)
        self.go_on(1)
        self.assert_over()

    def test_restart_after_its_end(self):
        self.boost()
        self.restart(age_s=60)
        self.go_on()
        self.go_on(1)
        self.assert_over()

    def test_restart_without_an_age(self):
        self.boost()
        self.restart_compute_service(self.host)
        with fixtures.MockPatch(
            'nova_rt.lxc.ages.read_age_s', side_effect=OSError(errno.ESRCH, '')
        ):
            self.computes[self.host].manager.rt_boosts.resume_all()
        boost = self.computes[self.host].manager.rt_boosts
        boost.work()
        self.assertEqual(400, self.actual())

    def test_switched_off(self):
        self.boost()
        self.flags_of_ours(adapt=False)
        self.restart_compute_service(self.host)
        self.assertIsNone(self.computes[self.host].manager.rt_boosts)
        self.assertIsNone(self.reservations(self.host).boosting)
        self.assertEqual(400, self.claimed())
        self.hard_reboot(self.server)
        self.assert_runtimes(400)

    def test_killed(self):
        """Before the write it is lost, after it the next service ends it."""
        adapting = self.computes[self.host].driver.running.adapting
        with fixtures.MockPatchObject(
            adapting, 'adapt', side_effect=SystemExit
        ):
            self.assertRaises(SystemExit, self.go_on)
        self.assertEqual((400, 800), (self.actual(), self.claimed()))
        self.restart()
        self.go_on()
        self.assert_over()
        self.hard_reboot(self.server)
        self.boost()
        adapting = self.computes[self.host].driver.running.adapting
        with fixtures.MockPatchObject(
            adapting, 'adapt', side_effect=SystemExit
        ):
            self.assertRaises(SystemExit, self.go_on, 60)
        self.assertEqual((800, 800), (self.actual(), self.claimed()))
        self.restart(age_s=60)
        self.go_on()
        self.go_on(1)
        self.assert_over()


class AdaptedBoostTest(BoostTestBase):
    """A server that follows its load as well."""

    SPECS = BoostTestBase.SPECS | {
        'adapt': 'throttled', 'runtime_min': '100', 'runtime_max': '800',
    }  # fmt: skip

    def test_boost_first(self):
        manager = self.computes[self.host].manager
        for each in (manager.rt_feedback, manager._rt_adapted):
            each._clock = lambda: self.now_s
        (cpu,) = self.record_of(self.server).cpus
        group = self.kernel.group_of(self.guest(self.server, self.host).id)

        def idle(seconds):
            for _ in range(seconds * 10):
                self.now_s += 0.1
                self.kernel.use(group, cpu, 100, 0, 0)
                manager.rt_feedback.sample()
                manager.rt_feedback.work()

        self.boost()
        idle(20)
        manager._record_adapted(self.ctxt)
        self.assert_runtimes(800)
        self.go_on(40)
        self.go_on(1)
        self.assert_over()
        idle(20)
        self.assertEqual(100, self.actual())
        manager._record_adapted(self.ctxt)
        self.assertEqual(
            100, self.record_of(self.server).request.reservation.runtime_us
        )
        # From what it has learnt; a later start is boosted again.
        self.hard_reboot(self.server)
        self.go_on()
        self.assert_runtimes(800, own=100)

    def test_restart_after_its_end(self):
        """The law has all that goes beyond the record then."""
        self.boost()
        self.restart(age_s=60)
        self.assertFalse(self.boosts.has(self.server['id']))
        self.assertEqual((800, 800), (self.actual(), self.claimed()))


class ThreadTest(changes.ChangesTestBase):
    """The real thread, by the real time."""

    def test_boost(self):
        def assert_held(runtime_us):
            share, _ = self.held(self.server, self.host)
            self.assertEqual(runtime_us, share.runtime_us)

        self._delete_server(self.server)
        flavor = self.rt_flavor(
            '400/1000', startup_runtime='800', startup_s='2'
        )
        self.server = self.create(flavor, host=self.host)
        self._wait_for_assert(lambda: assert_held(800))
        self._wait_for_assert(lambda: assert_held(400))
        self.computes[self.host].manager.rt_boosts.stop()
