# SPDX-License-Identifier: Apache-2.0
"""A server has its reservation wherever it goes, and holds it once.

Until a move is confirmed or reverted, the server holds two: the old one and
the new one. Refusals are in the tests of the API; :mod:`test_evacuation` has
the moves that need a dead host.
"""

from tempest import config
from tempest.lib import decorators
import testtools

from nova_rt_tempest_plugin import probe
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import moves

CONF = config.CONF

HINTS = CONF.nova_rt.hints in ('lower', 'any')
NO_HINTS = f'[nova_rt] hints is {CONF.nova_rt.hints}'
#: As many CPUs as no host has.
TOO_MANY = 512


class ResizeTest(moves.MoveTest):
    """From one flavor to another, on the same host or to another."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.compute_feature_enabled.resize:
            raise cls.skipException('[compute-feature-enabled] resize is off')

    def start(self, reservation):
        """Make a server; None for a plain one."""
        if reservation is None:
            return self.plain()['id']
        return self.boot(reservation)['id']

    def asking(self, server, reservation):
        """Return a function that asks for a resize."""
        if reservation is None:
            flavor = self.flavor({})
        else:
            flavor = self.rt_flavor(reservation)
        return lambda: self.servers.resize_server(server, flavor)

    def check(self, old, new, *, revert=False):
        """Resize a server and delete it."""
        server = self.start(old)
        ask = self.asking(server, new)
        self.check_move(server, ask, old, new, revert=revert)
        self.end(server)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1801')
    def test_up_and_confirm(self):
        self.check(self.small, self.large)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1802')
    def test_up_and_revert(self):
        self.check(self.small, self.large, revert=True)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1803')
    def test_down_and_confirm(self):
        self.check(self.large, self.small)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1804')
    def test_down_and_revert(self):
        self.check(self.large, self.small, revert=True)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1805')
    def test_to_plain_and_confirm(self):
        self.check(self.small, None)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1806')
    def test_to_plain_and_revert(self):
        self.check(self.small, None, revert=True)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1807')
    def test_from_plain_and_confirm(self):
        self.check(None, self.small)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1808')
    def test_from_plain_and_revert(self):
        self.check(None, self.small, revert=True)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1809')
    def test_stopped_server(self):
        """It stays stopped, and has the new reservation once it is started."""
        server = self.start(self.small)
        self.leave_mark(server)
        source = self.place(server)
        self.act(server, 'os-stop', 'SHUTOFF')

        self.asking(server, self.large)()
        self.reach(server, 'VERIFY_RESIZE')
        target = self.place(server)
        migration = self.migration(server)
        self.assert_allocated(migration, source, self.small)
        self.assert_allocated(server, target, self.large)
        for place in {source, target}:
            self.assert_runs_not(server, place)

        self.servers.confirm_resize_server(server)
        self.reach(server, 'SHUTOFF')
        self.assert_allocated(migration, source, None)
        self.assert_allocated(server, target, self.large)
        self.act(server, 'os-start', 'ACTIVE')
        self.assert_runs(server, self.large)
        self.assert_mark(server)
        self.end(server)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c180a')
    def test_delete_before_it_is_confirmed(self):
        server = self.start(self.small)
        source = self.place(server)
        self.asking(server, self.large)()
        self.reach(server, 'VERIFY_RESIZE')
        migration = self.migration(server)
        self.assert_allocated(migration, source, self.small)

        self.end(server)
        self.assert_allocated(migration, source, None)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c180b')
    def test_no_host_has_room(self):
        """The server runs on with its reservation."""
        server = self.start(self.small)
        place = self.place(server)
        cpus = self.assert_runs(server, self.small)
        first = self.container(server).first_process() if self.looks else None
        # Not refused because of VCPUs, of which hosts have a limit, too.
        specs = self.rt_specs(self.small) | {'resources:VCPU': '0'}

        self.servers.resize_server(server, self.flavor(specs, TOO_MANY))
        self.reach(server, 'ACTIVE')
        self.wait_for(
            lambda: any('No valid host' in each for each in self.why(server)),
            'nobody is told why',
        )
        self.assertEqual(place, self.place(server))
        self.assert_allocated(server, place, self.small)
        self.assertEqual(cpus, self.assert_runs(server, self.small))
        if self.looks:
            self.assertEqual(first, self.container(server).first_process())

    def why(self, server):
        """Return the texts of the events of a server's resizes."""
        texts = []
        actions = self.admin_servers.list_instance_actions(server)
        for action in actions['instanceActions']:
            if action['action'] == 'resize':
                found = self.admin_servers.show_instance_action(
                    server, action['request_id']
                )['instanceAction']
                texts += [
                    each.get('details') or '' for each in found['events']
                ]
        return texts

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c180c')
    @testtools.skipUnless(HINTS, NO_HINTS)
    @testtools.skipUnless(
        CONF.nova_rt.hint_middleware, '[nova_rt] hint_middleware is not set'
    )
    def test_hint_applies_to_its_flavor(self):
        """It ends with a resize to another flavor, and comes back with it."""
        hinted = self.rt_flavor(self.large)
        server = self.boot_flavor(hinted, hint=self.small)['id']
        other = base.times(self.large, 0.75)

        ask = self.asking(server, other)
        self.check_move(server, ask, self.small, other, revert=True)
        self.check_move(server, ask, self.small, other)
        self.check_move(
            server,
            lambda: self.servers.resize_server(server, hinted),
            other,
            self.small,
        )
        self.end(server)


class MigrationTest(moves.MoveTest):
    """Cold migration: another host, the same flavor."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.compute_feature_enabled.cold_migration:
            raise cls.skipException(
                '[compute-feature-enabled] cold_migration is off'
            )
        if CONF.compute.min_compute_nodes < 2:
            raise cls.skipException('[compute] min_compute_nodes is below 2')

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        if len(cls.rt_hosts()) < 2:
            raise cls.skipException('one host alone has real-time servers')

    def check(self, server, reservation, *, revert=False):
        """Migrate a server."""
        source, target = self.check_move(
            server,
            lambda: self.admin_servers.migrate_server(server),
            reservation,
            reservation,
            revert=revert,
        )
        self.assertNotEqual(source, target)

    @decorators.attr(type=['multinode'])
    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1811')
    def test_confirm(self):
        """Its service answers at the same address, if there is one."""
        answers = bool(CONF.nova_rt.rtprobe and CONF.service_available.neutron)
        made = self.boot(self.small, network=answers)
        seconds = CONF.compute.build_timeout
        address = probe.reach(made, seconds) if answers else None
        self.check(made['id'], self.small)
        if address:
            probe.wait(address, seconds)
        self.end(made['id'])

    @decorators.attr(type=['multinode'])
    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1812')
    def test_revert(self):
        server = self.boot(self.small)['id']
        self.check(server, self.small, revert=True)
        self.end(server)

    @decorators.attr(type=['multinode'])
    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1813')
    @testtools.skipUnless(HINTS, NO_HINTS)
    def test_hint(self):
        """The flavor is the same, and so the hint applies."""
        server = self.boot(self.large, hint=self.small)['id']
        self.check(server, self.small)
        self.end(server)


class ShelveTest(moves.MoveTest):
    """An offloaded server holds nothing until it is unshelved."""

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.compute_feature_enabled.shelve:
            raise cls.skipException('[compute-feature-enabled] shelve is off')

    def check(self, server, reservation):
        """Shelve a server, offload it and unshelve it."""
        self.assert_runs(server, reservation)
        self.leave_mark(server)
        place = self.place(server)

        self.servers.shelve_server(server)
        found = self.reach(server, 'SHELVED', 'SHELVED_OFFLOADED')
        if found['status'] == 'SHELVED':
            self.assert_runs_not(server, place)
            self.assert_allocated(server, place, reservation)
            self.admin_servers.shelve_offload_server(server)
            self.reach(server, 'SHELVED_OFFLOADED')
        self.assert_nothing_left(server)

        self.act(server, 'unshelve', 'ACTIVE')
        self.assert_allocated(server, self.place(server), reservation)
        self.assert_runs(server, reservation)
        self.assert_mark(server)
        self.end(server)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1821')
    def test_offload_and_unshelve(self):
        self.check(self.boot(self.small)['id'], self.small)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1822')
    @testtools.skipUnless(HINTS, NO_HINTS)
    def test_hint(self):
        server = self.boot(self.large, hint=self.small)['id']
        self.check(server, self.small)

    @decorators.idempotent_id('96ee60fd-46da-46c6-a7a0-7a5cb27c1823')
    def test_delete_when_offloaded(self):
        server = self.boot(self.small)['id']
        self.servers.shelve_server(server)
        found = self.reach(server, 'SHELVED', 'SHELVED_OFFLOADED')
        if found['status'] == 'SHELVED':
            self.admin_servers.shelve_offload_server(server)
            self.reach(server, 'SHELVED_OFFLOADED')
        self.end(server)
