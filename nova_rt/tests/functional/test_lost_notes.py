# SPDX-License-Identifier: Apache-2.0
"""Moves whose notes in system_metadata another service overwrites.

Nova saves all of a server's system_metadata at once: a service that has read
it earlier removes what was written since.
"""

import fixtures
from nova.compute import manager as nova_manager

from nova_rt.compute import manager
from nova_rt.tests.functional import kills
from nova_rt.tests.functional.moves import NEW, OLD
from nova_rt.tracking import servers

_NOVA = nova_manager.ComputeManager
_MANAGER = manager.RTComputeManager


class LostNotesTest(kills.KilledResizeTestBase):
    def setUp(self):
        super().setUp()
        # So that the CPUs differ.
        self.create(self.rt_flavor('100/1000'), host=self.target)

    def lose_notes(self, name, meanwhile=lambda: None):
        """Overwrite the notes once, before a method of the manager."""
        original = getattr(_MANAGER, name)
        lost = []

        def step(this, context, instance, *args, **kwargs):
            if not lost:
                for found in (instance, self.instance(self.server)):
                    lost.append(servers.forget_move(found))
                    found.save()
                meanwhile()
            return original(this, context, instance, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(_MANAGER, name, step))
        return lost

    def assert_moved(self, reservation, ppm):
        self.assertEqual(self.target, self.host_of(self.server))
        rec = self.assert_runs(self.server, reservation)
        if rec is not None:
            self.assertNotEqual(self.before.cpus, rec.cpus)
        self.audit()
        self.assertEqual(
            {self.source: (0, OLD), self.target: (ppm, 0)},
            self.ppm(self.server),
        )
        self.assert_stable(self.server)

    def test_lost_before_arrival(self):
        """The destination knows what it has claimed."""
        lost = self.lose_notes('_finish_resize')
        self.resize(self.server, self.larger)
        self.assertIn(True, lost)
        self.assert_moved('600/1000', NEW)
        self.revert(self.server)
        self.assert_runs(self.server, '400/1000')
        self.assert_stable(self.server)

    def test_audits_keep_what_is_held(self):
        for flavor, reservation, ppm in (
            (self.larger, '600/1000', NEW),
            (None, '400/1000', OLD),
            (self.plain_flavor(), None, 0),
        ):
            with self.case(reservation):
                self.lose_notes('_finish_resize', self.audit)
                self.move(self.server, flavor)
                self.assert_moved(reservation, ppm)
                self.revert(self.server)
                self.assert_stable(self.server)

    def test_nobody_knows(self):
        """The server does not run with another reservation than claimed."""
        self.lose_notes(
            '_finish_resize',
            lambda: self.reservations(self.target).release(self.server['id']),
        )
        self.resize(self.server, self.larger, state='ERROR')
        self.assertIn('is lost', self.reason(self.server))
        self.assertFalse(self.domains(self.target) & {self.server['id']})

    def test_lost_before_it_leaves(self):
        self.lose_notes('_resize_instance')
        server = self.fail_move(
            self.server, self.larger, 'resize', 'compute_resize_instance'
        )
        self.assertIn('move it again', self.reason(server))
        self.assertEqual(self.before, self.assert_runs(server, '400/1000'))
        self.resize(self.server, self.larger)
        self.assert_moved('600/1000', NEW)

    def test_confirmation_ends_late(self):
        """The next resize begins as soon as the server is ACTIVE."""
        self.end_late(
            '_delete_allocation_after_move', self.source, 'confirmResize'
        )

    def test_revert_ends_late(self):
        self.end_late('_finish_revert_resize', self.target, 'revertResize')

    def end_late(self, name, source, action):
        """Hold up the last step of a move until the next is on its way.

        :param name: the method before that step
        :param source: where the next move of the server starts from
        """
        self.resize(self.server, self.rt_flavor('300/1000'))
        wait, go = self.hold_up(_NOVA, name, after=True)
        with self.as_source(self.server):
            self.api.post_server_action(self.server['id'], {action: None})
            wait()
        self._wait_for_state_change(self.server, 'ACTIVE')
        wait, leave = self.hold_up(_NOVA, '_resize_instance')
        self.api.post_server_action(
            self.server['id'], {'resize': {'flavorRef': self.larger}}
        )
        wait()
        keys = self.moving_keys(self.server)
        self.assertIn(servers.NEW, keys)
        go()
        self._wait_for_instance_action_event(
            self.server, action,
            {
                'confirmResize': 'compute_confirm_resize',
                'revertResize': 'compute_finish_revert_resize',
            }[action], 'success',
        )  # fmt: skip
        self.assertEqual(keys, self.moving_keys(self.server))
        leave()
        server = self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.assert_runs(server, '600/1000')
        self.assertEqual(NEW, self.allocated(server))
