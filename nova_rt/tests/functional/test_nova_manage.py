# SPDX-License-Identifier: Apache-2.0
"""nova-manage placement heal_allocations and audit, for real-time servers.

Nova's commands know the flavor and no hint, and no resource class of ours but
what a flavor spells out. nova-rt-manage audit mends the rest.
"""

import contextlib
import io

from nova.cmd import manage as nova_manage

from nova_rt.reservation import extra_specs
from nova_rt.tests.functional import test_audit_of_moves, test_manage_audit

RC = extra_specs.RESOURCE_CLASS


def nova_placement(command, **options):
    """Run a command of nova-manage placement.

    :returns: its exit code, and what it printed
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        commands = nova_manage.PlacementCommands()
        code = getattr(commands, command)(verbose=True, **options)
    return code, out.getvalue()


class HealTest(test_manage_audit.AuditTestBase):
    """A server has lost its allocation."""

    def create_whole(self, vcpus=1, hint=None):
        flavor = self.rt_flavor('300/1000', vcpus, whole=True)
        return self.create(flavor, hint)

    def lose(self, server):
        """Remove a server's allocation.

        :returns: what it was
        """
        before = self.resources(server['id'])
        self.allocate(server['id'], {})
        self.assertEqual({}, self.resources(server['id']))
        return before

    def heal(self, server, expected=0, **options):
        """Run Nova's command for one server.

        :param expected: its exit code; 4 says that it changed nothing
        """
        code, text = nova_placement(
            'heal_allocations', instance_uuid=server['id'], **options
        )
        self.assertEqual(expected, code, text)

    def test_whole_flavor(self):
        """The flavor that our command prints is all that Nova needs."""
        server = self.create_whole(vcpus=2)
        kept = self.resources(self.server['id'])
        before = self.lose(server)
        self.assertEqual(600_000, before[self.provider][RC])
        self.heal(server, expected=4, dry_run=True)
        self.assertEqual({}, self.resources(server['id']))
        self.heal(server)
        self.assertEqual(before, self.resources(server['id']))
        self.assert_clean()
        # A run over all servers leaves those alone that have theirs.
        self.lose(server)
        code, text = nova_placement('heal_allocations')
        self.assertEqual(0, code, text)
        self.assertEqual(before, self.resources(server['id']))
        self.assertEqual(kept, self.resources(self.server['id']))
        self.assert_clean()

    def test_hint(self):
        """Nova allocates what the flavor says; our audit, what is reserved."""
        server = self.create_whole(hint='100/1000')
        before = self.lose(server)
        self.assertEqual(100_000, before[self.provider][RC])
        # No server stops for an allocation that is lost.
        self.restart_compute_service('compute1')
        self.flags(host='nowhere')
        self.assertTrue(self.guest(server).is_active())
        self.assertEqual(100_000, self.claims()[server['id']].total_ppm)
        # --force overwrites an allocation that is right as well.
        for options in {}, {'force': True}:
            self.heal(server, **options)
            self.assertEqual(300_000, self.allocated(server))
            self.assert_found('placement', server['id'], '300000', '100000')
            self.assert_mends()
            self.assertEqual(before, self.resources(server['id']))

    def test_modest_flavor(self):
        """With the reservation alone, Nova heals nothing of ours."""
        self.lose(self.server)
        self.heal(self.server)
        self.assertEqual(0, self.allocated(self.server))
        self.assert_found('placement', self.server['id'], '0 ppm', '600000')
        self.assert_mends()
        self.assertEqual(600_000, self.allocated(self.server))


class OrphansTest(test_manage_audit.AuditTestBase):
    """An allocation belongs to nobody."""

    def test_deleted_server(self):
        other = self.create(self.rt_flavor('100/1000'))
        held = self.resources(other['id'])[self.provider]
        before = self.resources(self.server['id'])
        self._delete_server(other)
        self.allocate(other['id'], held)
        code, text = nova_placement('audit')
        self.assertEqual(3, code, text)
        self.assertIn(other['id'], text)
        self.assertNotIn(self.server['id'], text)
        code, text = nova_placement('audit', delete=True)
        self.assertEqual(4, code, text)
        self.assertEqual({}, self.resources(other['id']))
        self.assertEqual(before, self.resources(self.server['id']))
        self.assertEqual(0, nova_placement('audit')[0])
        self.assert_clean()


class MoveTest(test_audit_of_moves.AuditTestBase):
    """A move is under way, and holds two allocations."""

    def test_nothing_is_orphaned(self):
        self.resize(self.server, self.rt_flavor('500/1000'))
        code, text = nova_placement('audit', delete=True)
        self.assertEqual(0, code, text)
        code, text = nova_placement('heal_allocations')
        self.assertEqual(4, code, text)
        self.assert_clean()
        self.revert(self.server)
        self.assert_clean()
