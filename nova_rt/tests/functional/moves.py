# SPDX-License-Identifier: Apache-2.0
"""Two hosts and what tests of moves ask of them."""

import collections
import contextlib

import fixtures
from nova import objects, service
from nova.tests.functional.libvirt import base as nova_base

from nova_rt.reservation import admission, record
from nova_rt.tests.functional import base
from nova_rt.tracking import servers
from nova_rt.virt.libvirt import driver, metadata

HOSTS = ('compute1', 'compute2')
#: ppm of the flavors of the server that tests move.
OLD, NEW = 400_000, 600_000


class MovesTestBase(base.RTServersTestBase):
    """Two hosts that share their instances' directory."""

    ADMIN_API = True
    CAST_AS_CALL = False

    def setUp(self):
        super().setUp()
        for host in HOSTS:
            self.start_compute(host)

    def start_stock_compute(self, hostname, *args, **kwargs):
        """Start a host that runs the stock nova-compute."""
        # It would change the owners of every file, if it could.
        self.stub_out('nova.privsep.idmapshift.shift', lambda *args: None)
        managers = dict(service.SERVICE_MANAGERS)
        managers['nova-compute'] = 'nova.compute.manager.ComputeManager'
        self.flags(compute_driver='libvirt.LibvirtDriver')
        with fixtures.MonkeyPatch('nova.service.SERVICE_MANAGERS', managers):
            # Not by start_compute(), which a test may have call this.
            started = base.RTServersTestBase.start_compute(
                self, hostname, *args, **kwargs
            )
        self.flags(compute_driver=driver.COMPUTE_DRIVER)
        return started

    # Asking for moves

    def host_of(self, server):
        return self.instance(server).host

    def other(self, host):
        return HOSTS[1 - HOSTS.index(host)]

    def stay(self, host):
        """From now on, nothing is scheduled to the other host."""
        self.flags(allow_resize_to_same_host=True)
        self.enable(self.other(host), False)

    def enable(self, host, enabled=True):
        service = self.api.get_services('nova-compute', host)[0]['id']
        status = 'enabled' if enabled else 'disabled'
        self.api.put_service(service, {'status': status})

    def resize(self, server, flavor, state='VERIFY_RESIZE'):
        return self.ask_for(server, 'resize', {'flavorRef': flavor}, state)

    def migrate(self, server, host=None, state='VERIFY_RESIZE'):
        return self._migrate_server(server, host, state)

    def move(self, server, flavor=None):
        return self.resize(server, flavor) if flavor else self.migrate(server)

    @contextlib.contextmanager
    def as_source(self, server):
        """Confirm a move within, by the user or by deletion.

        All hosts share one configuration here. The driver of the source
        removes the domain of a server that is not on [DEFAULT] host.
        """
        before = nova_base.CONF.host
        self.flags(host=self.migration(server).source_compute)
        yield
        self.flags(host=before)

    def confirm(self, server):
        with self.as_source(server):
            server = self._confirm_resize(server)
        # The end of it comes a little later.
        self._wait_for_assert(
            lambda: self.assertEqual({}, self.moving_keys(server))
        )
        return server

    def revert(self, server):
        server = self.ask_for(server, 'revertResize')
        self._wait_for_instance_action_event(
            server, 'revertResize', 'compute_finish_revert_resize', 'success'
        )
        return server

    def end(self, server, how):
        return (
            self.confirm(server) if how == 'confirm' else self.revert(server)
        )

    def hard_reboot(self, server):
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self._wait_for_instance_action_event(
            server, 'reboot', 'compute_reboot_instance', 'success'
        )

    def reset(self, server, state='active'):
        """An operator sets a server's state, whatever is under way."""
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': state}}
        )

    def fail_move(self, server, flavor, action, event, state='ACTIVE'):
        """A move that ends with an error; the server is in a state then.

        :returns: the server
        """
        arguments = {'flavorRef': flavor} if flavor else None
        self.ask_in_vain(server, action, arguments, event)
        return self._wait_for_server_parameter(
            server, {'OS-EXT-STS:task_state': None, 'status': state}
        )

    def reason(self, server):
        """Its last fault, which the API shows of a server in ERROR alone."""
        return objects.InstanceFault.get_latest_for_instance(
            self.ctxt, server['id']
        ).message

    def come_back(self, host):
        """A host that was thought dead starts its service again."""
        self.restart_compute_service(host)
        self.force_down(host, False)

    def force_down(self, host, down=True):
        service = self.api.get_services('nova-compute', host)[0]['id']
        self.api.put_service(service, {'forced_down': down})

    def die(self, host):
        """The service of a host ends; its containers do not."""
        self.computes[host].stop()
        self.force_down(host)

    def audit(self):
        """The minute's update of both hosts."""
        for host in HOSTS:
            self.audit_host(host)

    def audit_host(self, host):
        manager = self.computes[host].manager
        manager.rt.update_available_resource(self.ctxt, host)

    # What is held

    def moving_keys(self, server):
        """Return what system_metadata says of a move."""
        found = self.instance(server).system_metadata
        return {key: found[key] for key in (servers.NEW, servers.OLD)
                if key in found}  # fmt: skip

    def slots(self, server, host):
        """Bandwidth of the current slot and of the other, or None."""
        slots = self.reservations(host).held.get(server['id'])
        return tuple(
            each if isinstance(each, record.Record) else None
            for each in (slots.current, slots.beside)
        )

    def ppm(self, server):
        """Host -> ppm of its two slots, 0 for one that is not held."""
        return {
            host: tuple(
                claim.total_ppm if claim else 0
                for claim in self.slots(server, host)
            )
            for host in HOSTS
        }

    def all_claims(self, host):
        held = self.reservations(host).held.claims().values()
        return [claim for claims in held for claim in claims]

    def migration(self, server):
        """The last one of a server."""
        return objects.MigrationList.get_by_filters(
            self.ctxt, {'instance_uuid': server['id']}
        )[-1]

    def assert_sums(self, hosts=HOSTS):
        """Check that claims are allocated, and missing from what is free."""
        for host in hosts:
            claims = self.all_claims(host)
            self.assertEqual(
                sum(claim.total_ppm for claim in claims), self.used(host), host
            )
            whole = admission.Capacity(
                self.capacity(host), overhead_us=self.overhead_us(host)
            )
            self.assertEqual(
                whole.free(claims).cpus, self.published(host), host
            )
            total = collections.Counter()
            for claim in claims:
                ppm = whole.count(claim.request.reservation)
                total.update(dict.fromkeys(claim.cpus, ppm))
            for cpu, ppm in total.items():
                self.assertLessEqual(ppm, self.capacity(host)[cpu])

    def assert_stable(self, server, hosts=HOSTS):
        """An audit changes nothing, on either host."""
        self.assert_sums(hosts)
        before = {host: self.slots(server, host) for host in hosts}
        for host in hosts:
            self.audit_host(host)
        self.assertEqual(
            before, {host: self.slots(server, host) for host in hosts}
        )
        self.assert_sums(hosts)

    def assert_runs(self, server, reservation):
        """It runs on its host alone, with this or as a plain one (None)."""
        host = self.host_of(server)
        self.assertNotIn(
            server['id'],
            [
                guest.uuid
                for guest in self.computes[
                    self.other(host)
                ].driver._host.list_guests()
            ],
        )
        guest = self.guest(server, host)
        self.assertTrue(guest.is_active())
        if reservation is None:
            self.assertIsNone(metadata.parse_record(guest))
            self.assertNotIn('nova_rt', self.instance(server).system_metadata)
            return None
        rec = self.record_of(server)
        self.assertEqual(reservation, str(rec.request.reservation))
        self.assertEqual(rec, metadata.parse_record(guest).record)
        self.assertEqual(rec, self.claims(host)[server['id']])
        kernel = self.computes[host].driver._rt_host
        self.assertIsNone(kernel.check(guest.id, rec))
        return rec


class ServerToMoveTestBase(MovesTestBase):
    """A server with OLD, and a flavor with NEW that it can be moved to.

    :ivar source: its host
    :ivar target: the other one
    :ivar before: its record
    """

    RESERVATION = '400/1000'
    HINT = None

    def setUp(self):
        super().setUp()
        self.smaller = self.rt_flavor(self.RESERVATION)
        self.larger = self.rt_flavor('600/1000')
        self.server = self.create(self.smaller, self.HINT)
        self.source = self.host_of(self.server)
        self.target = self.other(self.source)
        self.before = self.record_of(self.server)
