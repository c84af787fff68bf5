# SPDX-License-Identifier: Apache-2.0
"""Moves that do not succeed: nothing is lost, nothing is left."""

import fixtures
from nova import exception as nova_exception

from nova_rt import exception
from nova_rt.tests.functional import moves
from nova_rt.tracking.reservations import Reservations

NONE = (0, 0)


class FailureTest(moves.ServerToMoveTestBase):
    """A server of 400/1000 that is to become one of 600/1000."""

    def break_step(self, name, error=None):
        """From now on, a step fails."""
        error = error or RuntimeError('broken by the test')
        self.useFixture(fixtures.MockPatch(name, side_effect=error))

    def fill(self, host):
        """Leave too little on each CPU, and much in sum."""
        flavor = self.rt_flavor('500/1000')
        for _ in range(self.CPUS - len(self.all_claims(host))):
            self.create(flavor, host=host)

    def assert_stays(self, server, state='ACTIVE'):
        """The server is where it was, with what it had; nothing is left."""
        self.assertEqual(state, server['status'])
        self.audit()
        self.assertEqual(self.source, self.host_of(server))
        self.assertEqual(self.before, self.record_of(server))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual((self.before, None), self.slots(server, self.source))
        self.assertEqual((None, None), self.slots(server, self.target))
        self.assertEqual(400_000, self.allocated(server))
        self.assert_stable(server)

    def test_no_room(self):
        """Refused with the numbers: by the scheduler, then by the claim."""
        self.fill(self.target)
        seen = self.listen(self.target)
        server = self.fail_move(
            self.server, self.larger, 'resize', 'conductor_migrate_server'
        )
        self.assertIn('600000', self.reason(server))
        self.assert_stays(server)
        self.assertEqual([], seen)
        self.forget_filters()
        server = self.fail_move(
            self.server, self.larger, 'resize', 'compute_prep_resize'
        )
        self.assertIn('asked 600000 ppm', self.reason(server))
        self.assertEqual(
            [('refused', 'claim')],
            [(event.kind, event.action) for event in seen],
        )
        self.assert_stays(server)
        self.assert_runs(server, '400/1000')

    def test_another_host_is_tried(self):
        self.start_compute('compute3')
        refused = []
        name = 'nova_rt.tracking.reservations.Reservations.claim'
        original = Reservations.claim

        def claim(held, uuid, rec, beside=False):
            if not refused:
                refused.append(held)
                raise exception.InsufficientBandwidth(600_000, 1, (), 'full')
            return original(held, uuid, rec, beside)

        self.stub_out(name, claim)
        server = self.resize(self.server, self.larger)
        host = self.host_of(server)
        self.assertIsNot(refused[0], self.reservations(host))
        self.assertEqual(600_000, self.claims(host)[server['id']].ppm)
        others = {'compute1', 'compute2', 'compute3'} - {host, self.source}
        (other,) = others
        self.assertEqual((None, None), self.slots(server, other))
        self.assertEqual(0, self.used(other))
        self.assertEqual(
            (None, self.before),
            (self.slots(server, host)[1], self.before),
        )
        self.audit_host(self.source)
        self.assert_sums((host, other, self.source))

    def fail_after_the_claim(self):
        """The source cannot be told: Nova aborts the claim."""
        self.break_step('nova.compute.rpcapi.ComputeAPI.resize_instance')
        return self.fail_move(
            self.server, self.larger, 'resize', 'compute_prep_resize', 'ERROR'
        )

    def test_after_the_claim(self):
        server = self.fail_after_the_claim()
        # At once, without an audit.
        self.assertEqual((None, None), self.slots(server, self.target))
        self.assert_stays(server, 'ERROR')

    def test_after_the_claim_on_the_same_host(self):
        self.stay(self.source)
        server = self.fail_after_the_claim()
        self.assertEqual((self.before, None), self.slots(server, self.source))
        # Nova does not track it until the next audit, others come meanwhile.
        self.create(self.rt_flavor('300/1000'))
        self.assertIn(server['id'], self.claims(self.source))
        self.assert_stays(server, 'ERROR')

    def test_disks_cannot_be_moved(self):
        self.break_step(
            'nova.virt.libvirt.driver.LibvirtDriver.'
            'migrate_disk_and_power_off',
            nova_exception.InstanceFaultRollback(
                nova_exception.ResizeError(reason='no room for disks')
            ),
        )
        server = self.fail_move(
            self.server, self.larger, 'resize', 'compute_resize_instance'
        )
        self.assert_stays(server)
        self.assert_runs(server, '400/1000')

    def test_start_on_the_destination(self):
        """As Nova says: it can be recovered there by a hard reboot."""
        self.refuse_writes(hostname=self.target)
        server = self.fail_move(
            self.server, self.larger, 'resize', 'compute_finish_resize',
            'ERROR',
        )  # fmt: skip
        self.audit()
        self.assertEqual(self.target, self.host_of(server))
        rec = self.record_of(server)
        self.assertEqual('600/1000', str(rec.request.reservation))
        self.assertEqual((rec, None), self.slots(server, self.target))
        self.assertEqual((None, None), self.slots(server, self.source))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual(600_000, self.allocated(server))
        self.assert_stable(server)
        self.refuse_writes(0, self.target)
        server = self._reboot_server(server, hard=True)
        self.assert_runs(server, '600/1000')
        self.assert_stable(server)

    def fail_revert(self, server, event):
        self.ask_in_vain(server, 'revertResize', None, event)
        return self.wait_idle(server, 'ERROR')

    def test_start_after_a_revert(self):
        server = self.resize(self.server, self.larger)
        self.refuse_writes(hostname=self.source)
        server = self.fail_revert(server, 'compute_finish_revert_resize')
        self.assert_stays(server, 'ERROR')
        self.refuse_writes(0, self.source)
        server = self._reboot_server(server, hard=True)
        self.assert_stays(server)
        self.assert_runs(server, '400/1000')

    def test_revert_that_does_not_leave_the_destination(self):
        """Nova's tracker gives up the source; the destination has it all."""
        server = self.resize(self.server, self.larger)
        self.break_step('nova.virt.libvirt.driver.LibvirtDriver.destroy')
        server = self.fail_revert(server, 'compute_revert_resize')
        self.audit()
        self.assertEqual(
            {self.source: NONE, self.target: (600_000, 0)}, self.ppm(server)
        )
        rec = self.record_of(server)
        self.assertEqual('600/1000', str(rec.request.reservation))
