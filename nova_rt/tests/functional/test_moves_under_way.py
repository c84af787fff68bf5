# SPDX-License-Identifier: Apache-2.0
"""Audits and restarts in each phase of a move: claims stay what they are."""

import fixtures
from nova.virt.libvirt import driver as nova_driver

from nova_rt import events
from nova_rt.compute import manager
from nova_rt.exporter import domains, reading
from nova_rt.tests.functional import moves
from nova_rt.virt.libvirt import metadata

OLD, NEW = 400_000, 600_000
DRIVER = 'nova.virt.libvirt.driver.LibvirtDriver'
MANAGER = 'nova_rt.compute.manager.RTComputeManager'


class PhasesTest(moves.MovesTestBase):
    """A resize from 400/1000 to 600/1000, audited at each step."""

    def setUp(self):
        super().setUp()
        self.server = self.create(self.rt_flavor('400/1000'))
        self.larger = self.rt_flavor('600/1000')
        self.source = self.host_of(self.server)
        self.target = self.other(self.source)
        self.phases = []

    def look(self, phase):
        """Audit both hosts, and note what is held before and after."""
        before = self.ppm(self.server)
        self.audit()
        self.phases.append((phase, before, self.ppm(self.server)))

    def hook(self, name, original):
        """Look in front of a step."""

        def step(*args, **kwargs):
            self.look(name.rpartition('.')[2])
            return original(*args, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(name, step))

    def hook_all(self):
        for name, original in (
            (f'{DRIVER}.migrate_disk_and_power_off',
             nova_driver.LibvirtDriver.migrate_disk_and_power_off),
            (f'{MANAGER}._finish_resize',
             manager.RTComputeManager._finish_resize),
            (f'{DRIVER}.finish_migration',
             nova_driver.LibvirtDriver.finish_migration),
            (f'{MANAGER}._confirm_resize',
             manager.RTComputeManager._confirm_resize),
            (f'{DRIVER}.destroy', nova_driver.LibvirtDriver.destroy),
            (f'{MANAGER}._revert_instance_flavor_host_node',
             manager.RTComputeManager._revert_instance_flavor_host_node),
            (f'{DRIVER}.finish_revert_migration',
             nova_driver.LibvirtDriver.finish_revert_migration),
        ):  # fmt: skip
            self.hook(name, original)

    def assert_phases(self, expected):
        """Check what was held in each phase; an audit did not change it."""
        self.assertEqual(list(expected), [phase for phase, *_ in self.phases])
        for phase, _, after in self.phases:
            self.assertEqual(
                dict(zip((self.source, self.target), expected[phase],
                         strict=True)),
                after, phase,
            )  # fmt: skip

    def test_confirm(self):
        self.hook_all()
        self.resize(self.server, self.larger)
        self.confirm(self.server)
        self.assert_phases({
            'migrate_disk_and_power_off': ((OLD, 0), (0, NEW)),
            '_finish_resize': ((0, OLD), (NEW, 0)),
            'finish_migration': ((0, OLD), (NEW, 0)),
            '_confirm_resize': ((0, OLD), (NEW, 0)),
        })  # fmt: skip

    def test_revert(self):
        self.resize(self.server, self.larger)
        self.hook_all()
        self.revert(self.server)
        self.assert_phases({
            'destroy': ((0, OLD), (NEW, 0)),
            '_revert_instance_flavor_host_node': ((0, OLD), (0, 0)),
            'finish_revert_migration': ((OLD, 0), (0, 0)),
        })  # fmt: skip

    def test_confirm_on_the_same_host(self):
        self.stay(self.source)
        self.hook_all()
        self.resize(self.server, self.larger)
        self.confirm(self.server)
        self.assert_phases({
            'migrate_disk_and_power_off': ((OLD, NEW), (0, 0)),
            '_finish_resize': ((OLD, NEW), (0, 0)),
            'finish_migration': ((NEW, OLD), (0, 0)),
            '_confirm_resize': ((NEW, OLD), (0, 0)),
        })  # fmt: skip

    def test_revert_on_the_same_host(self):
        self.stay(self.source)
        self.resize(self.server, self.larger)
        self.hook_all()
        self.revert(self.server)
        self.assert_phases({
            'destroy': ((NEW, OLD), (0, 0)),
            '_revert_instance_flavor_host_node': ((OLD, 0), (0, 0)),
            'finish_revert_migration': ((OLD, 0), (0, 0)),
        })  # fmt: skip

    def exported(self, host):
        """List the claims that nova-rt-exporter finds in a host's domains."""
        guests = self.computes[host].driver._host.list_guests(
            only_running=False
        )
        records = [(each, metadata.parse_record(each)) for each in guests]
        return reading.list_claims(
            domains.LibvirtServer(
                guest.uuid, found.record, None, beside=found.beside
            )
            for guest, found in records
            if found is not None
        )

    def assert_exported(self, server, ppm):
        """It counts as the service does, with both slots."""
        host = self.host_of(server)
        self._wait_for_assert(
            lambda: self.assertEqual(
                sorted(map(str, self.all_claims(host))),
                sorted(map(str, self.exported(host))),
            )
        )
        claims = self.exported(host)
        self.assertEqual(ppm, sum(claim.total_ppm for claim in claims))

    def test_exported_on_the_same_host(self):
        """Also of a server that is stopped, which no check looks at."""
        self.stay(self.source)
        seen = self.listen(self.source)
        self.assert_exported(self.server, OLD)
        server = self.resize(self.server, self.larger)
        self.assert_exported(server, OLD + NEW)
        self.computes[self.source].driver.running.verify_all()
        self.assert_exported(server, OLD + NEW)
        server = self.confirm(server)
        self.assert_exported(server, NEW)
        server = self._stop_server(server)
        server = self.resize(server, self.rt_flavor('400/1000'))
        self.assert_exported(server, OLD + NEW)
        with self.as_source(server):
            self.api.post_server_action(server['id'], {'confirmResize': None})
            server = self._wait_for_state_change(server, 'SHUTOFF')
        self.assert_exported(server, OLD)
        self.assertEqual([], [
            event for event in seen if isinstance(event, events.Drifted)
        ])  # fmt: skip

    def test_exported_between_two_hosts(self):
        server = self.resize(self.server, self.larger)
        self.assert_exported(server, NEW)
        server = self.confirm(server)
        self.assert_exported(server, NEW)

    def check_restart(self, how):
        server = self.resize(self.server, self.larger)
        # The source notes that it has left.
        self.audit()
        before = {host: self.slots(server, host) for host in moves.HOSTS}
        host = self.host_of(server)
        runs = self.assert_runs(server, '600/1000')
        written = self.writes(host)
        for each in moves.HOSTS:
            self.restart_compute_service(each)
        self.assertEqual(
            before, {each: self.slots(server, each) for each in moves.HOSTS}
        )
        self.assertEqual(written, self.writes(host))
        self.assertEqual(runs, self.assert_runs(server, '600/1000'))
        self.assert_stable(server)
        server = self.end(server, how)
        self.assert_runs(
            server, '600/1000' if how == 'confirm' else '400/1000'
        )
        self.assert_stable(server)

    def test_restart_then_confirm(self):
        self.check_restart('confirm')

    def test_restart_then_revert(self):
        self.check_restart('revert')

    def test_restart_then_confirm_on_the_same_host(self):
        self.stay(self.source)
        self.check_restart('confirm')

    def test_restart_then_revert_on_the_same_host(self):
        self.stay(self.source)
        self.check_restart('revert')

    def test_others_come_between(self):
        """Each claim publishes and releases; a move's slots stay."""
        server = self.resize(self.server, self.larger)
        before = {host: self.slots(server, host) for host in moves.HOSTS}
        flavor = self.rt_flavor('100/1000')
        for host in moves.HOSTS:
            self._delete_server(self.create(flavor, host=host))
        self.assertEqual(
            before, {host: self.slots(server, host) for host in moves.HOSTS}
        )
        self.revert(server)
        for host in moves.HOSTS:
            self._delete_server(self.create(flavor, host=host))
        self.assertIn(server['id'], self.claims(self.source))
        self.assert_stable(server)

    def test_reservation_is_repaired(self):
        """In VERIFY_RESIZE, with the new one."""
        server = self.resize(self.server, self.larger)
        self.lose_reservation(server, self.target)
        self.computes[self.target].manager._verify_reservations(self.ctxt)
        self.assert_runs(server, '600/1000')

    def test_history(self):
        """The events that each host tells of a move."""
        seen = {host: self.listen(host) for host in moves.HOSTS}

        def told(host):
            kinds = [event.kind for event in seen[host]]
            seen[host].clear()
            return kinds

        server = self.resize(self.server, self.larger)
        self.assertEqual(['claimed', 'applied'], told(self.target))
        self.audit()
        self.confirm(server)
        self.assertEqual(['released'], told(self.source))
        self.assertEqual([], told(self.target))
        self.stay(self.target)
        server = self.resize(server, self.rt_flavor('200/1000'))
        self.revert(server)
        self.assertEqual(
            ['added', 'applied', 'dropped', 'applied'], told(self.target)
        )
        self.assertEqual([], told(self.source))
