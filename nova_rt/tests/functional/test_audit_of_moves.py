# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage audit of servers that are moved, or were to be."""

from nova.compute import rpcapi
from nova.tests.functional.libvirt import base as nova_base

from nova_rt.compute import manager
from nova_rt.tests.fixtures import manage
from nova_rt.tests.functional import kills, moves
from nova_rt.tracking import servers


class AuditTestBase(moves.ServerToMoveTestBase):
    """A server, and an administrator who runs the audit."""

    def setUp(self):
        super().setUp()
        self.prepare_commands()

    def audit_command(self, *words):
        # It runs on none of the hosts; a service that starts sets its own.
        before = nova_base.CONF.host
        self.flags(host='nowhere')
        result = manage.run(nova_base.CONF, 'audit', '-f', 'json', *words)
        self.flags(host=before)
        return result

    def assert_clean(self):
        result = self.audit_command()
        self.assertEqual((0, []), (result.code, result.data), result.err)

    def find(self):
        return {
            (each['Host'], each['Server'], each['Source'])
            for each in self.audit_command().data
        }

    def assert_repaired(self, *differences):
        """All of this is found, and nothing is left after the repair."""
        self.assertEqual(set(differences), self.find())
        self.audit_command('--repair')
        self.audit()
        self.assert_clean()

    def assert_found(self, host, source, text):
        result = self.audit_command()
        self.assertEqual(1, result.code, result.err)
        (found,) = result.data
        self.assertEqual(
            (host, self.server['id'], source),
            (found['Host'], found['Server'], found['Source']),
        )
        self.assertIn(text, found['Difference'])


class AuditOfMovesTest(AuditTestBase):
    def test_each_kind(self):
        """Before, during and after."""
        for flavor in (
            self.larger, self.plain_flavor(),
            self.rt_flavor('300/1000'), None,
        ):  # fmt: skip
            for how in ('revert', 'confirm'):
                self.move(self.server, flavor)
                self.assert_clean()
                self.end(self.server, how)
                self.assert_clean()

    def test_what_is_damaged(self):
        self.migrate(self.server)
        reports = self.computes[self.source].manager.reportclient
        for consumer, host, text in (
            (self.migration(self.server).uuid, self.source, ' for its migr'),
            (self.server['id'], self.target, ''),
        ):
            held = reports.get_allocs_for_consumer(self.ctxt, consumer)
            reports.delete_allocation_for_instance(
                self.ctxt, consumer, force=True
            )
            self.assert_found(host, 'placement', f'holds 0 ppm{text}')
            held['consumer_generation'] = None
            reports.put_allocations(self.ctxt, consumer, held)
        instance = self.instance(self.server)
        kept = instance.system_metadata[servers.OLD]
        instance.system_metadata[servers.OLD] = 'v=9'
        instance.save()
        self.assert_found(self.source, 'record', 'v=9')
        instance.system_metadata[servers.OLD] = kept
        instance.save()
        self.assert_clean()
        # Published as free, while the source may need it again.
        tracker = self.computes[self.source].manager.rt
        self.reservations(self.source).release(self.server['id'])
        tracker._update(self.ctxt, tracker.compute_nodes[self.source])
        (found,) = self.audit_command().data
        self.assertEqual(
            (self.source, 'tracker'), (found['Host'], found['Source'])
        )


class AllocationsTest(AuditTestBase):
    """All that Placement holds for a server is set right, on every host."""

    def put(self, *held):
        """Let a server hold this, as (host, resources)."""
        reports = self.computes[self.source].manager.reportclient
        payload = reports.get_allocs_for_consumer(self.ctxt, self.server['id'])
        payload['allocations'] = {
            self.compute_rp_uuids[host]: {'resources': resources}
            for host, resources in held
        }
        reports.put_allocations(self.ctxt, self.server['id'], payload)

    def read(self):
        found = self.placement.get(f'/allocations/{self.server["id"]}').body
        hosts = {self.compute_rp_uuids[host]: host for host in moves.HOSTS}
        return {
            hosts[provider]: each['resources']
            for provider, each in found['allocations'].items()
        }

    def test_mended(self):
        here, there = self.source, self.target
        right = self.read()[here]
        for held, hosts in (
            ((), {here}),
            (((here, {'CUSTOM_RT_BANDWIDTH': 400_000}),), {here}),
            # heal_allocations takes the flavor's CPUs as well.
            (((here, right | {'VCPU': 1}),), {here}),
            (((here, right), (there, right)), {there}),
            # As a repair in the middle of a revert once left it.
            (((there, right),), {here, there}),
        ):
            with self.case(held):
                self.put(*held)
                self.assert_repaired(
                    *[(host, self.server['id'], 'placement') for host in hosts]
                )
                self.assertEqual({here: right}, self.read())

    def test_evacuated(self):
        """The dead host's containers may still run: it ends that itself."""
        self.die(self.source)
        self._evacuate_server(
            self.server, expected_state='SHUTOFF',
            expected_migration_status='done',
        )  # fmt: skip
        found = {
            each['Source']: each['Difference']
            for each in self.audit_command().data
        }
        self.assertIn('was evacuated from', found['placement'])
        before = self.read()
        self.audit_command('--repair')
        self.assertEqual(before, self.read())


class RevertTest(kills.KillsTestBase, AuditTestBase):
    def test_on_its_way_back(self):
        """For Nova the move is over; the source has its part still to do."""
        self.resize(self.server, self.larger)
        wait, go = self.hold_up(rpcapi.ComputeAPI, 'finish_revert_resize')
        self.api.post_server_action(self.server['id'], {'revertResize': None})
        wait()
        self.assertEqual('reverted', self.migration(self.server).status)
        self.audit()
        self.assert_clean()
        self.audit_command('--repair')
        go()
        server = self.wait_idle(self.server)
        self._wait_for_assert(
            lambda: self.assertEqual({}, self.moving_keys(server))
        )
        self.assert_runs(server, '400/1000')
        self.assert_stable(server)
        self.assert_clean()


class LostMovesTest(kills.KillsTestBase, AuditTestBase):
    """A service was killed, and the server's state is set back since."""

    def lose(self, host, name):
        """Lose a resize at a step, and let somebody set the state back."""
        action = {'resize': {'flavorRef': self.larger}}
        self.kill(host, action, manager.RTComputeManager, name)
        # Nobody has touched it: it may still go on.
        self.assert_clean()
        self.reset(self.server)
        self.audit()
        return self.migration(self.server).uuid

    def test_before_the_claim(self):
        uuid = self.lose(self.target, '_prep_resize')
        self.assert_repaired(
            (self.source, self.server['id'], 'placement'),
            (self.source, uuid, 'placement'),
            (self.target, self.server['id'], 'placement'),
        )
        self.assert_runs(self.server, '400/1000')
        # Nova has the lost one for ever; the next one is compared.
        self.migrate(self.server)
        self.assert_clean()
        self.confirm(self.server)
        self.assert_clean()

    def test_after_it_has_left(self):
        uuid = self.lose(self.target, '_finish_resize_helper')
        left = (self.target, self.server['id'], 'record')
        self.assertEqual({left, (self.source, uuid, 'placement')}, self.find())
        self.audit_command('--repair')
        self.assert_found(left[0], left[2], 'was not finished')
        self.hard_reboot(self.server)
        self.audit()
        self.assert_clean()
        self.assert_runs(self.server, '600/1000')

    def test_confirmed(self):
        """The allocation of the source, which it gives back last."""
        self.resize(self.server, self.larger)
        action = {'confirmResize': None}
        with self.as_source(self.server):
            self.kill(
                self.source, action, manager.RTComputeManager,
                '_delete_allocation_after_move',
            )  # fmt: skip
        uuid = self.migration(self.server).uuid
        self.audit()
        self.assert_repaired((self.source, uuid, 'placement'))
        self.assert_runs(self.server, '600/1000')

    def test_deleted(self):
        """The allocation of a deleted server's migration is found, too."""
        uuid = self.lose(self.target, '_finish_resize_helper')
        self._delete_server(self.server)
        self.assert_repaired((self.source, uuid, 'placement'))
