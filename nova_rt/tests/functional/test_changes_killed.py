# SPDX-License-Identifier: Apache-2.0
"""A service is killed at each step of a change.

The next one leads to the lesser of both reservations: the old one of a change
that grows, the new one of a change that shrinks. The conductor asks again.
"""

from nova_rt.compute import allocations, resource_tracker
from nova_rt.tests.functional import changes, kills
from nova_rt.virt.libvirt import running

_TRACKER = resource_tracker.RTResourceTracker
_ALLOCATIONS = allocations.Allocations
_RUNNING = running.RunningContainers

#: Owner and name of each step, in order of a change that grows.
_STEPS = (
    (_TRACKER, 'rt_begin_change'),
    (_ALLOCATIONS, 'change'),
    (_RUNNING, 'change'),
    (_TRACKER, 'rt_end_change'),
)


class KilledTest(changes.ChangesTestBase, kills.KillsTestBase):
    def kill_at(self, reservation, owner, name, after):
        self.kill(
            self.host,
            lambda: self.ask_change(self.server, reservation),
            owner, name, after,
        )  # fmt: skip

    def go_through(self, reservation, wanted):
        """Kill before and after each step, and see what it has become.

        :param wanted: the reservation that it has before, and after each
        """
        for owner, name in _STEPS:
            for after in False, True:
                with self.case(name, 'after' if after else 'before'):
                    self.kill_at(reservation, owner, name, after)
                    first = (owner, name, after) == (*_STEPS[0], False)
                    last = (owner, name, after) == (*_STEPS[-1], True)
                    ended = wanted
                    if first:
                        ended = '400/1000'
                    elif last:
                        ended = reservation
                    self.assert_changed(ended)
                    # As a conductor does that has had no answer.
                    self.change(self.server, reservation)
                    self.assert_changed(reservation)
                    self.change(self.server, '400/1000')

    def test_grow(self):
        self.go_through('600/1000', '400/1000')

    def test_shrink(self):
        self.go_through('200/1000', '200/1000')

    def test_early(self):
        """The kernel held what no record has."""
        for reservation in '600/1000', '200/1000':
            self.change(self.server, '300/1000')
            self.change(self.server, '400/1000')
            self.kill_at(reservation, *_STEPS[0], after=False)
            self.assert_changed('400/1000')
            self.change(self.server, reservation)
            self.assert_changed(reservation)

    def test_live_pin(self):
        """It goes back to the CPU that it had."""
        for each in self.fill('500/1000', 4):
            if self.record_of(each).cpus != self.record_of(self.server).cpus:
                self._delete_server(each)
                break
        before = self.record_of(self.server)
        for after in False, True:
            self.kill_at('700/1000', _RUNNING, 'change', after)
            self.assertEqual(before, self.assert_changed('400/1000'))
        self.change(self.server, '700/1000')
        self.assertNotEqual(before.cpus, self.assert_changed('700/1000').cpus)
