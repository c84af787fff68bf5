# SPDX-License-Identifier: Apache-2.0
"""Changes that the kernel holds early, and bandwidth that it returns late."""

import errno
import time
from unittest import mock

import fixtures
from nova.compute import task_states
from oslo_concurrency import lockutils

from nova_rt.formats.changes import Condition
from nova_rt.tests.functional import changes


class EarlyTest(changes.ChangesTestBase):
    """The kernel holds a change before its journal is saved."""

    def setUp(self):
        super().setUp()
        # The service knows no request of a server before its first one.
        self.change(self.server, '300/1000')
        self.change(self.server, '400/1000')
        del self.kernel.writes[:]

    def written(self):
        return [
            text
            for path, text in self.writes(self.host)
            if path.name == 'cpu.rt.max'
        ]

    def test_order(self):
        owner = self.computes[self.host].manager.rt
        begin, seen = owner.rt_begin_change, []

        def look(*args):
            seen.append(self.written())
            return begin(*args)

        with fixtures.MockPatchObject(owner, 'rt_begin_change', look):
            self.change(self.server, '600/1000')
            self.change(self.server, '200/1000')
        self.assertEqual([['600 1000'], ['600 1000', '200 1000']], seen)
        self.assertEqual(['600 1000', '200 1000'], self.written())
        self.assert_changed('200/1000')

    def test_requests(self):
        """Placement is read once, and a claim is published as it is made."""
        manager = self.computes[self.host].manager
        client = manager.reportclient
        (node,) = manager.rt.compute_nodes.values()
        with (
            mock.patch.object(
                client, 'get_allocs_for_consumer',
                wraps=client.get_allocs_for_consumer,
            ) as read,
            mock.patch.object(node, 'save', wraps=node.save) as save,
        ):  # fmt: skip
            for reservation in '600/1000', '200/1000':
                self.change(self.server, reservation)
        self.assertEqual(2, read.call_count)
        self.assertEqual(2, save.call_count)
        self.assert_changed('200/1000')

    def test_another_period(self):
        """It is not known to be the larger or the lesser one throughout."""
        owner = self.computes[self.host].manager.rt
        with fixtures.MockPatchObject(
            owner, 'rt_begin_change', side_effect=OSError
        ):
            self.change(self.server, '50/100', Condition.IN_PROGRESS)
        self.assertEqual([], self.written())

    def test_refused(self):
        """A change that Nova or Placement refuses is taken back."""
        instance = self.instance(self.server)
        for wish in '600/1000', '200/1000':
            # After a refusal, the next one is not written early.
            self.change(self.server, '400/1000')
            del self.kernel.writes[:]
            instance.task_state = task_states.REBOOTING
            instance.save()
            self.change(self.server, wish, Condition.IN_PROGRESS)
            instance.task_state = None
            instance.save()
            self.assertEqual(
                [wish.replace('/', ' '), '400 1000'], self.written()
            )
            self.assert_changed('400/1000')
        self.change(self.server, '400/1000')
        del self.kernel.writes[:]
        self.take_in_placement(but=500_000)
        self.change(self.server, '600/1000', Condition.DEFERRED)
        self.assertEqual(
            [400_000], [each.ppm for each in self.all_claims(self.host)]
        )
        self.assertEqual(['600 1000', '400 1000'], self.written())
        self.assert_ended(self.server, '400/1000', self.host)

    def test_late(self):
        """A request that comes again, or too late, writes nothing."""
        for generation, wish in (1, '100/1000'), (2, '400/1000'):
            self.ask_change(self.server, wish, generation=generation)
        self.assertEqual([], self.written())

    def test_refused_once(self):
        """A request that is older than a refused one writes nothing."""
        instance = self.instance(self.server)
        instance.task_state = task_states.REBOOTING
        instance.save()
        for generation, wish in (4, '600/1000'), (3, '100/1000'):
            self.ask_change(self.server, wish, generation=generation)
        self.assertEqual(['600 1000', '400 1000'], self.written())

    def test_another_record(self):
        """A request from before a resize writes nothing."""
        self.stay(self.host)
        flavor = self.instance(self.server).flavor.id
        self.resize(self.server, self.rt_flavor('500/1000'))
        self.confirm(self.server)
        del self.kernel.writes[:]
        self.ask_change(self.server, '100/1000', generation=9, flavor=flavor)
        self.assertEqual([], self.written())

    def test_half_written(self):
        """The kernel may hold a change whose write fails."""
        adapting = self.computes[self.host].manager.driver.running.adapting
        apply = adapting._host.apply

        def fail(*args, **kwargs):
            apply(*args, **kwargs)
            if len(self.written()) == 1:
                raise OSError(errno.EIO, 'no answer')

        instance = self.instance(self.server)
        instance.task_state = task_states.REBOOTING
        instance.save()
        with fixtures.MockPatchObject(adapting._host, 'apply', fail):
            self.change(self.server, '200/1000', Condition.IN_PROGRESS)
        self.assertEqual(['200 1000', '400 1000'], self.written())

    def test_stopped(self):
        self._stop_server(self.server)
        self.change(self.server, '600/1000')
        self.assertEqual(
            [600_000], [each.ppm for each in self.all_claims(self.host)]
        )

    def test_busy(self):
        """A container that others write to is taken back later."""
        manager = self.computes[self.host].manager
        container = f'nova_rt-container-{self.server["id"]}'

        def fail(*args):
            lock.acquire()
            raise OSError

        lock = lockutils.internal_lock(container)
        with fixtures.MockPatchObject(
            manager.rt, 'rt_begin_change', side_effect=fail
        ):
            self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        self.assertEqual(['600 1000'], self.written())
        self.assertEqual(
            [600_000], [each.ppm for each in self.all_claims(self.host)]
        )
        manager._settle_changes(self.ctxt)
        self.assertEqual(['600 1000'], self.written())
        lock.release()
        manager._settle_changes(self.ctxt)
        self.assertEqual(['600 1000', '400 1000'], self.written())
        self.assert_changed('400/1000')

    def test_busy_for_a_moment(self):
        """It is tried again before the request is answered."""
        owner = self.computes[self.host].manager.rt
        lock = lockutils.internal_lock(
            f'nova_rt-container-{self.server["id"]}'
        )
        clock = self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.changes.time', Clock())
        ).new_value
        clock.meanwhile = lock.release

        def fail(*args):
            lock.acquire()
            raise OSError

        with fixtures.MockPatchObject(owner, 'rt_begin_change', fail):
            self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        self.assertEqual([0.1], clock.waits)
        self.assertEqual(['600 1000', '400 1000'], self.written())
        self.assert_changed('400/1000')


class Clock:
    """Time that passes in waits alone.

    :ivar waits: their seconds
    :ivar meanwhile: called in each
    """

    def __init__(self):
        self.now_s = time.monotonic() + 60
        self.waits = []
        self.meanwhile = lambda: None

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.waits.append(round(seconds, 6))
        self.meanwhile()
        self.now_s += seconds


class ReturnTest(changes.ChangesTestBase):
    """The kernel holds bandwidth until the end of the old period."""

    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.useFixture(
            fixtures.MonkeyPatch('nova_rt.compute.changes.time', self.clock)
        )

    def change_twice(self):
        """The next change will be written early."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.compute.early_writes.time', self.clock
            )
        )
        for reservation in '300/1000', '400/1000':
            self.change(self.server, reservation)
        del self.clock.waits[:]

    def assert_claimed(self, ppm):
        """Nova does anything else to the server, which holds so much."""
        with lockutils.lock(self.server['id'], 'nova-', blocking=False):
            self.assertEqual(
                [ppm], [each.ppm for each in self.all_claims(self.host)]
            )
        self.assertEqual(ppm, self.allocated(self.server))

    def test_shrink(self):
        self.clock.meanwhile = lambda: self.assert_claimed(400_000)
        self.change(self.server, '200/1000')
        self.assertEqual([0.001], self.clock.waits)
        self.assert_changed('200/1000')
        self.clock.meanwhile = lambda: self.assert_claimed(200_000)
        self.change(self.server, '10/100')
        self.clock.meanwhile = lambda: self.assert_claimed(100_000)
        self.change(self.server, '50/1000')
        self.assertEqual([0.001, 0.001, 0.0001], self.clock.waits)

    def test_early(self):
        """It is the same for a change that was written early."""
        self.change_twice()
        self.clock.meanwhile = lambda: self.assert_claimed(400_000)
        self.change(self.server, '200/1000')
        self.assertEqual([0.001], self.clock.waits)
        self.assert_changed('200/1000')

    def test_taken_back(self):
        """A change that is refused holds its claim for a period."""
        self.change_twice()
        instance = self.instance(self.server)
        for wish, claim, waits in (
            ('600/1000', 600_000, [0.001]), ('200/1000', 400_000, []),
        ):  # fmt: skip
            instance.task_state = task_states.REBOOTING
            instance.save()
            self.clock.meanwhile = lambda ppm=claim: self.assertEqual(
                [ppm], [each.ppm for each in self.all_claims(self.host)]
            )
            self.change(self.server, wish, Condition.IN_PROGRESS)
            self.assertEqual(waits, self.clock.waits)
            instance.task_state = None
            instance.save()
            del self.clock.waits[:]
            self.assert_changed('400/1000')
            self.clock.meanwhile = lambda: None
            self.change(self.server, '400/1000')

    def break_growth(self, meanwhile):
        """A change to 600/1000 is taken back, and something done meanwhile."""
        self.change_twice()
        self.clock.meanwhile = meanwhile
        owner = self.computes[self.host].manager.rt
        with fixtures.MockPatchObject(
            owner, 'rt_begin_change', side_effect=[OSError(), mock.DEFAULT],
            wraps=owner.rt_begin_change,
        ):  # fmt: skip
            self.change(self.server, '600/1000', Condition.IN_PROGRESS)

    def test_smaller_growth(self):
        """A change behind one that was taken back waits for the kernel."""

        def ask():
            self.clock.meanwhile = lambda: seen.append(
                [each.ppm for each in self.all_claims(self.host)]
            )
            self.change(self.server, '500/1000')

        seen = []
        self.break_growth(ask)
        # The last one is that of the first change, which is over by then.
        self.assertEqual([0.001, 0.001, 0], self.clock.waits)
        self.assertEqual([[600_000], [500_000]], seen)
        self.assert_changed('500/1000')

    def test_not_published(self):
        """A claim is released although nobody can be told."""

        def fail():
            self.useFixture(
                fixtures.MockPatch(
                    'nova.objects.ComputeNode.save', side_effect=OSError
                )
            )

        self.break_growth(fail)
        self.assertEqual(
            [400_000], [each.ppm for each in self.all_claims(self.host)]
        )

    def test_asked_again(self):
        """Another conductor asks in the wait: nothing is returned earlier."""

        def ask():
            self.clock.meanwhile = lambda: self.assert_claimed(400_000)
            answers.append(self.ask_change(self.server, '200/1000',
                                           generation=1))  # fmt: skip

        answers = []
        self.clock.meanwhile = ask
        answers.append(self.ask_change(self.server, '200/1000'))
        self.assertEqual([0.001, 0.001], self.clock.waits)
        self.assertEqual(
            [Condition.APPLIED] * 2, [each.condition for each in answers]
        )
        self.assert_changed('200/1000')

    def test_deleted(self):
        self.clock.meanwhile = lambda: self._delete_server(self.server)
        answer = self.ask_change(self.server, '200/1000')
        self.assertTrue(answer.gone)
        self.assertEqual([], self.all_claims(self.host))

    def test_failed_growth(self):
        """Bandwidth of a change that was undone returns as late."""
        self.clock.meanwhile = lambda: self.assert_claimed(600_000)
        owner = self.computes[self.host].manager.rt
        with fixtures.MockPatchObject(
            owner, 'rt_end_change', side_effect=[OSError(), mock.DEFAULT],
            wraps=owner.rt_end_change,
        ):  # fmt: skip
            self.change(self.server, '600/1000', Condition.IN_PROGRESS)
        self.assertEqual([0.001], self.clock.waits)
        self.assert_changed('400/1000')

    def test_restart(self):
        """A new service does not know what the last one has written."""

        def fail():
            raise OSError

        self.clock.meanwhile = fail
        self.assertRaises(OSError, self.ask_change, self.server, '200/1000')
        self.assert_claimed(400_000)
        self.clock.meanwhile = lambda: self.assertEqual(
            400_000, self.allocated(self.server)
        )
        self.restart_compute_service(self.host)
        self.assertEqual([0.001, 0.001], self.clock.waits)
        self.assert_changed('200/1000')
