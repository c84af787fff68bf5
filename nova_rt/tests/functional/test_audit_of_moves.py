# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage audit of servers that are moved, or were to be."""

import threading

import fixtures
from nova.compute import rpcapi
from nova.tests.functional.libvirt import base as nova_base

from nova_rt import conf as nova_rt_conf
from nova_rt.compute import manager
from nova_rt.tests.fixtures import manage
from nova_rt.tests.functional import kills, moves
from nova_rt.tracking import servers


class AuditTestBase(moves.MovesTestBase):
    """A server, and an administrator who runs the audit."""

    def setUp(self):
        super().setUp()
        for name, value in (
            # The database fixture has configured it.
            ('nova.db.api.api.context_manager.configure', lambda **_: None),
            ('nova_rt.manage.audit.reading._SETTLE_S', 0),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        nova_rt_conf.register_opts(nova_base.CONF)
        self.server = self.create(self.rt_flavor('400/1000'))
        self.source = self.host_of(self.server)
        self.target = self.other(self.source)

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

    def assert_repaired(self, *differences):
        """All of this is found, and nothing is left after the repair."""
        found = {
            (each['Host'], each['Server'], each['Source'])
            for each in self.audit_command().data
        }
        self.assertEqual(set(differences), found)
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
            self.rt_flavor('600/1000'), self.plain_flavor(),
            self.rt_flavor('300/1000'), None,
        ):  # fmt: skip
            for how in ('revert', 'confirm'):
                self.move(self.server, flavor)
                self.assert_clean()
                self.end(self.server, how)
                self.assert_clean()

    def test_allocation_of_the_migration(self):
        self.migrate(self.server)
        reports = self.computes[self.source].manager.reportclient
        reports.delete_allocation_for_instance(
            self.ctxt, self.migration(self.server).uuid, 'migration',
            force=True,
        )  # fmt: skip
        self.assert_found(self.source, 'placement', 'holds 0 ppm for its migr')

    def test_allocation_of_the_server(self):
        self.migrate(self.server)
        reports = self.computes[self.source].manager.reportclient
        reports.delete_allocation_for_instance(
            self.ctxt, self.server['id'], force=True
        )
        self.assert_found(self.target, 'placement', 'holds 0 ppm')

    def test_record_at_the_source(self):
        self.migrate(self.server)
        instance = self.instance(self.server)
        instance.system_metadata[servers.OLD] = 'v=9'
        instance.save()
        self.assert_found(self.source, 'record', 'v=9')

    def test_claim_at_the_source_is_not_held(self):
        """Published as free, while the source may need it again."""
        self.migrate(self.server)
        tracker = self.computes[self.source].manager.rt
        self.reservations(self.source).release(self.server['id'])
        tracker._update(self.ctxt, tracker.compute_nodes[self.source])
        result = self.audit_command()
        (found,) = result.data
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

    def assert_mended(self, *hosts):
        self.assert_repaired(
            *[(host, self.server['id'], 'placement') for host in hosts]
        )
        self.assertEqual({self.source: self.right}, self.read())

    def setUp(self):
        super().setUp()
        self.right = self.read()[self.source]

    def test_nothing_is_held(self):
        self.put()
        self.assert_mended(self.source)

    def test_bandwidth_alone(self):
        self.put((self.source, {'CUSTOM_RT_BANDWIDTH': 400_000}))
        self.assert_repaired((self.source, self.server['id'], 'placement'))
        self.assertEqual({self.source: self.right}, self.read())

    def test_cpus_beside(self):
        """heal_allocations takes the flavor's CPUs as well."""
        self.put((self.source, self.right | {'VCPU': 1}))
        self.assert_mended(self.source)

    def test_another_host_too(self):
        self.put((self.source, self.right), (self.target, self.right))
        self.assert_mended(self.target)

    def test_wrong_host(self):
        """As a repair in the middle of a revert once left it."""
        self.put((self.target, self.right))
        self.assert_mended(self.source, self.target)

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
        self.resize(self.server, self.rt_flavor('600/1000'))
        reached, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)
        original = rpcapi.ComputeAPI.finish_revert_resize

        def wait(*args, **kwargs):
            reached.set()
            go.wait(120)
            return original(*args, **kwargs)

        self.useFixture(
            fixtures.MockPatchObject(
                rpcapi.ComputeAPI, 'finish_revert_resize', wait
            )
        )
        self.api.post_server_action(self.server['id'], {'revertResize': None})
        self.assertTrue(reached.wait(60))
        self.assertEqual('reverted', self.migration(self.server).status)
        self.audit()
        self.assert_clean()
        self.audit_command('--repair')
        go.set()
        server = self._wait_for_server_parameter(
            self.server, {'status': 'ACTIVE', 'OS-EXT-STS:task_state': None}
        )
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
        action = {'resize': {'flavorRef': self.rt_flavor('600/1000')}}
        self.kill(host, action, manager.RTComputeManager, name)
        # Nobody has touched it: it may still go on.
        self.assert_clean()
        self.admin_api.post_server_action(
            self.server['id'], {'os-resetState': {'state': 'active'}}
        )
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
        found = {
            (each['Host'], each['Server'], each['Source'])
            for each in self.audit_command().data
        }
        left = (self.target, self.server['id'], 'record')
        self.assertEqual({left, (self.source, uuid, 'placement')}, found)
        self.audit_command('--repair')
        self.assert_found(left[0], left[2], 'was not finished')
        self.hard_reboot(self.server)
        self.audit()
        self.assert_clean()
        self.assert_runs(self.server, '600/1000')

    def test_confirmed(self):
        """The allocation of the source, which it gives back last."""
        self.resize(self.server, self.rt_flavor('600/1000'))
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
