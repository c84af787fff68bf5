# SPDX-License-Identifier: Apache-2.0
"""Recovery from a dead host."""

import fixtures
from nova.virt.libvirt import driver as nova_driver

from nova_rt.tests.functional import moves


class EvacuationTest(moves.ServerToMoveTestBase):
    RESERVATION, HINT = '1400/2000', '1000/2000'

    def evacuate(self, server=None, status='done', state='SHUTOFF'):
        # Nova leaves it stopped.
        return self._evacuate_server(
            server or self.server,
            expected_state=state,
            expected_migration_status=status,
        )

    def test_source_comes_back(self):
        # Another CPU than on the source.
        self.create(self.rt_flavor('300/1000'), host=self.target)
        self.die(self.source)
        seen = self.listen(self.target)
        server = self.evacuate()
        self.assertEqual(self.target, self.host_of(server))
        rec = self.record_of(server)
        # The hint is kept.
        self.assertEqual(self.before.request, rec.request)
        self.assertNotEqual(self.before.cpus, rec.cpus)
        self.assertEqual((rec, None), self.slots(server, self.target))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual(
            ['claimed', 'applied'], [event.kind for event in seen]
        )
        self.assertNotIn('no real-time server', self.stdlog.logger.output)
        self.audit_host(self.target)
        self.assertEqual((rec, None), self.slots(server, self.target))
        # Its container still runs there, and nobody knows.
        self.assertIn(server['id'], self.domains(self.source))
        written = self.writes(self.source)
        self.come_back(self.source)
        self.assertNotIn(server['id'], self.domains(self.source))
        self.assertEqual(written, self.writes(self.source))
        self.assertEqual((None, None), self.slots(server, self.source))
        self.assertEqual(0, self.used(self.source))
        self.assertEqual(500_000, self.allocated(server))
        server = self._start_server(server)
        self.assert_runs(server, '1000/2000')
        self.assert_stable(server)

    def test_no_room(self):
        """Refused with the numbers; later it can be tried again."""
        flavor = self.rt_flavor('600/1000')
        others = [
            self.create(flavor, host=self.target) for _ in range(self.CPUS)
        ]
        self.forget_filters()
        self.die(self.source)
        server = self.evacuate(status='failed', state='ACTIVE')
        self.assertIn('asked 500000 ppm', self.reason(server))
        self.assertEqual(self.source, self.host_of(server))
        self.assertEqual(self.before, self.record_of(server))
        self.assertEqual((None, None), self.slots(server, self.target))
        self.audit_host(self.target)
        self.assertEqual((None, None), self.slots(server, self.target))
        self.assert_sums([self.target])
        self.assertEqual(500_000, self.allocated(server))
        self._delete_server(others[0])
        server = self.evacuate()
        self.assertEqual(self.target, self.host_of(server))
        self.come_back(self.source)
        self.assert_stable(self._start_server(server))

    def test_start_fails(self):
        """The server is left with its dead host, and evacuated again."""
        self.die(self.source)
        self.refuse_writes(hostname=self.target)
        server = self.evacuate(status='failed', state='ERROR')
        self.assertEqual(self.source, self.host_of(server))
        self.assertEqual(self.before, self.record_of(server))
        self.assertEqual({}, self.moving_keys(server))
        self.assertEqual((None, None), self.slots(server, self.target))
        self.assertEqual(0, self.used(self.target))
        self.refuse_writes(0, self.target)
        looks = []
        original = nova_driver.LibvirtDriver.spawn

        def spawn(*args, **kwargs):
            # Nova does not count a server in ERROR then.
            self.audit_host(self.target)
            looks.append(self.ppm(server)[self.target])
            return original(*args, **kwargs)

        self.stub_out('nova.virt.libvirt.driver.LibvirtDriver.spawn', spawn)
        server = self.evacuate(state='ACTIVE')
        self.assertEqual([(500_000, 0)], looks)
        self.assertEqual(self.target, self.host_of(server))
        self.come_back(self.source)
        self.assert_runs(server, '1000/2000')
        self.assert_stable(server)

    def test_files_would_belong_to_nobody(self):
        """Both hosts share the disks, and neither maps all users."""
        plain = self.create(self.plain_flavor(), host=self.source)
        self.die(self.source)
        with self.owners_of_others():
            for server in (self.server, plain):
                server = self.evacuate(server, 'failed', 'ACTIVE')
                self.assertIn('0-99999', self.reason(server))
                self.assertEqual(self.source, self.host_of(server))
                self.assertEqual((None, None), self.slots(server, self.target))
                self.assertEqual(0, self.used(self.target))
                self.assertNotIn(server['id'], self.domains(self.target))
                self.assertEqual({}, self.moving_keys(server))
        self.assertEqual(self.before, self.record_of(self.server))
        for server in (self.server, plain):
            server = self.evacuate(server)
            self.assertEqual(self.target, self.host_of(server))
        self.assertEqual((None, None), self.slots(plain, self.target))

    def test_disk_is_made_anew(self):
        """Of what the server had, nothing is on it."""
        self.die(self.source)
        virt = self.computes[self.target].driver
        with (
            self.owners_of_others(),
            fixtures.MockPatchObject(
                virt, 'instance_on_disk', lambda instance: False
            ),
        ):
            server = self.evacuate()
        self.assertEqual(self.target, self.host_of(server))


class HintTest(moves.ServerToMoveTestBase):
    """A hint applies to the flavor that it was given with."""

    RESERVATION, HINT = '1400/2000', '1000/2000'

    def test_there_and_back(self):
        server = self.resize(self.server, self.larger)
        self.assert_runs(server, '600/1000')
        self.assertEqual(600_000, self.allocated(server))
        server = self.revert(server)
        self.assert_runs(server, '1000/2000')
        self.assert_stable(server)
        # By other flavors, at last to its own.
        for flavor, reservation in (
            (self.larger, '600/1000'),
            (None, '600/1000'),
            (self.plain_flavor(), None),
            (self.smaller, '1000/2000'),
            (None, '1000/2000'),
        ):
            server = self.confirm(self.move(server, flavor))
            self.assert_runs(server, reservation)
        self._rebuild_server(server, '70a599e0-31e7-49b7-b260-868f441e862b')
        self.assert_runs(server, '1000/2000')
        self.assert_stable(server)

    def test_without_our_filter_in_nova_api(self):
        """Nobody knows which flavor it was given with: it applies to all."""
        self.skip_api_filter()
        server = self.create(self.smaller, self.HINT)
        server = self.resize(server, self.larger)
        self.assert_runs(server, '1000/2000')
        self.assertEqual(500_000, self.allocated(server))
        server = self.confirm(server)
        for flavor in (self.rt_flavor('400/1000'), self.plain_flavor()):
            server = self.fail_move(
                server, flavor, 'resize', 'conductor_migrate_server'
            )
            self.assertIn('hint', self.reason(server))
            self.assert_runs(server, '1000/2000')
        self.assert_stable(server)
