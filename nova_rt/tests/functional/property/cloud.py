# SPDX-License-Identifier: Apache-2.0
"""The cloud that operations are done to, and what there is to see of it."""

import collections
import contextlib
import itertools

import fixtures
from nova import objects, thread_pool_factory
from nova.tests.fixtures import libvirt
from nova.tests.functional.api import client
from nova.virt.libvirt import driver
from oslo_messaging import server

from nova_rt.compute import boosts
from nova_rt.lxc import domains
from nova_rt.reservation import extra_specs, record
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import base, changes

#: Host -> how many CPUs it has.
HOSTS = {'ant': 3, 'bee': 2, 'cat': 2}
#: Flavor -> its reservation, ppm and vCPUs.
FLAVORS = {
    'small': ('300/1000', 300_000, 1),
    'large': ('600/1000', 600_000, 1),
    'pair': ('400/1000', 400_000, 2),
    'triple': ('200/1000', 200_000, 3),
    'plain': (None, 0, 1),
}
#: The pool of each CPU, and what its flavors ask of it.
POOL = '50/1000'
#: Seconds of a boost, by a clock of ours.
STARTUP_S = 60
MORE = {
    'small': {'startup_runtime': '700', 'startup_s': str(STARTUP_S)},
    'large': {'spare': POOL},
    'pair': {'spare': '50/2000'},
    'triple': {'startup_runtime': '1000', 'startup_s': str(STARTUP_S)},
}
#: Keys of a server's records: what it runs with, and the other of a move.
_RECORDS = (record.KEY, f'{record.KEY}_new', f'{record.KEY}_old')
_NONE = (None, 'plain')
IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'


class Cloud(changes.ChangesMixin, base.RTServersTestBase):
    """Not a test by itself: one cloud serves many sequences.

    Nothing is asked for before the last thing is over, in all threads, so
    that the same sequence always ends in the same way.
    """

    ADMIN_API = True

    def idle(self):
        """Stand in for the test that a test case must name."""

    def setUp(self):
        self.flags(instances=1000, cores=1000, ram=-1, group='quota')
        # However long a sequence takes, only we decide which host is down.
        self.flags(service_down_time=100_000)
        # Nothing but bandwidth is scarce.
        self.flags(disk_allocation_ratio=16.0)
        self.flags(allow_resize_to_same_host=True)
        self.flags(shelved_offload_time=-1)
        # A pool starts a thread for each request, up to this, and keeps it.
        # Each asks for the interpreter's lock once a second: with the usual
        # 64 of each service, that takes half of the time. A move that fails
        # needs three at once.
        base.base.CONF.register_opts(server._pool_opts)
        self.flags(executor_thread_pool_size=4)
        super().setUp()
        self._watch_threads()
        self._tell_hosts_apart()
        self._boost_by_hand()
        self.flags_of_ours(spare_pool=POOL)
        for host, cpus in HOSTS.items():
            self.kernels[host] = self.useFixture(
                kernel.make(self.INTERFACE, cpus=cpus)
            )
            self.start_compute(host)
        self.flavors = {
            name: self.rt_flavor(reservation, vcpus, **MORE.get(name, {}))
            if reservation
            else self._create_flavor(
                memory_mb=64, vcpu=vcpus, disk=10, ephemeral=0
            )
            for name, (reservation, _, vcpus) in FLAVORS.items()
        }
        self.forget()

    def _watch_threads(self):
        self._threads = []
        for name in ('spawn', 'spawn_on'):

            def spawn(*args, _spawn=getattr(thread_pool_factory, name), **kw):
                future = _spawn(*args, **kw)
                self._threads.append(future)
                return future

            self.useFixture(
                fixtures.MonkeyPatch(f'nova.thread_pool_factory.{name}', spawn)
            )

    def wait(self):
        """Wait for all that nova-compute does behind an answer.

        Casts are calls here: nothing else is left to wait for.
        """
        while self._threads:
            self._threads.pop().exception(timeout=60)

    def _tell_hosts_apart(self):
        """Give the source of a move its own name, not the last service's."""
        original = driver.LibvirtDriver._cleanup_resize

        def clean_up(source, *args):
            last = base.base.CONF.host
            self.flags(host=source.virtapi._compute.host)
            try:
                return original(source, *args)
            finally:
                self.flags(host=last)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.driver.LibvirtDriver._cleanup_resize',
                clean_up,
            )
        )

    def _boost_by_hand(self):
        """Take the steps of boosts in operations, by a clock of ours."""
        self.now_s = 0.0
        self.useFixture(
            fixtures.MockPatchObject(boosts.Boosts, 'start', lambda each: None)
        )
        # Nova's libvirt for tests has a number of its own.
        self.useFixture(
            fixtures.MockPatchObject(
                domains.libvirt, 'VIR_ERR_NO_DOMAIN', libvirt.VIR_ERR_NO_DOMAIN
            )
        )
        # No container here has a process.
        self.useFixture(
            fixtures.MockPatch(
                'nova_rt.lxc.ages.read_age_s', lambda pid: self.age_s
            )
        )
        self.age_s = 0

    def start_compute(self, hostname, *args, **kwargs):
        found = super().start_compute(hostname, *args, **kwargs)
        self._set_clock(hostname)
        return found

    def _set_clock(self, host):
        self.computes[host].manager.rt_boosts._clock = lambda: self.now_s

    def forget(self):
        """Begin a sequence: no server has a name."""
        self.uuids = {}

    # What can be done

    def ask(self, name, flavor, hint=None, host=None):
        """Ask for a server.

        :returns: whether nova-api took the request
        """
        fields = {'host': host} if host else {}
        body = self.server_request(self.flavors[flavor], hint, **fields)
        try:
            self.uuids[name] = self.api.post_server(body)['id']
        except client.OpenStackApiException as err:
            self.assertEqual(400, err.response.status_code)
            return False
        self.wait()
        return True

    def act(self, name, action, arguments=None):
        """Ask for something.

        :returns: whether nova-api took the request
        """
        try:
            self.api.post_server_action(self.uuids[name], {action: arguments})
        except client.OpenStackApiException as err:
            status = err.response.status_code
            # Casts are calls here: what a conductor raises comes back.
            if status != 500 or 'NoValidHost' not in str(err):
                self.assertIn(status, (400, 409), str(err))
            return False
        finally:
            self.wait()
        return True

    def change(self, name, reservation):
        """Change a reservation, as a conductor asks for it.

        :returns: the answer of the host
        """
        return self.ask_change({'id': self.uuids[name]}, reservation)

    def delete(self, name):
        uuid = self.uuids.pop(name)
        self.api.delete_server(uuid)
        self.wait()
        self._wait_until_deleted({'id': uuid})

    def restart(self, host, age_s=0):
        self.age_s = age_s
        self.restart_compute_service(host)
        self._set_clock(host)
        self.computes[host].manager.rt_boosts.resume_all()

    def boost(self, host, seconds):
        """Let time pass, and take the steps that are due after it."""
        self.now_s += seconds
        self.computes[host].manager.rt_boosts.work()

    def boost_all(self, hosts):
        """Take the steps that are due now.

        :returns: the number of servers that are boosted then
        """
        for host in hosts:
            self.boost(host, 0)
        return sum(map(self.count_boosted, hosts))

    def list_boosted(self, host):
        """UUID -> what a server may hold beyond its record."""
        held = self.reservations(host).held
        found = {uuid: held.get_adapted(uuid) for uuid in held.list_all()}
        return {uuid: each for uuid, each in found.items() if each}

    def count_boosted(self, host):
        return len(self.list_boosted(host))

    def _force_down(self, host, down):
        service = self.api.get_services(binary='nova-compute', host=host)[0]
        self.api.put_service(service['id'], {'forced_down': down})

    def kill(self, host):
        """The service ends, as far as anyone can tell with its host."""
        self.computes[host].stop()
        self._force_down(host, True)

    def revive(self, host):
        """The host is back, and its periodic tasks have run once."""
        self.restart(host)
        self._force_down(host, False)
        self.computes[host].manager._cleanup_running_deleted_instances(
            self.ctxt
        )
        self.audit(host)

    def audit(self, host):
        self.computes[host].manager.update_available_resource(self.ctxt)

    def verify(self, host):
        self.computes[host].manager._verify_reservations(self.ctxt)

    @contextlib.contextmanager
    def refusing(self, host):
        """The kernel of a host refuses every reservation meanwhile."""
        if host is None:
            yield
            return
        self.kernels[host].refuse(base.errno.EINVAL)
        try:
            yield
        finally:
            self.kernels[host].refuse(0)

    # What there is to see

    def server(self, name):
        return self.api.get_server(self.uuids[name])

    def see(self, name):
        """Look up a server in Nova's database."""
        return self.instance({'id': self.uuids[name]})

    def cpus_of(self, name):
        """The CPUs in the record that a server runs with, if it has one."""
        text = self.see(name).system_metadata.get(record.KEY)
        return record.Record.decode(text).cpus if text else ()

    def check(self, model):
        """Compare all that is kept anywhere with what must be held."""
        names = {}
        for name, uuid in self.uuids.items():
            names[uuid] = name
            if model.servers[name].before:
                # In Placement, the source holds in the name of the migration.
                moves = objects.MigrationList.get_by_filters(
                    self.ctxt, {'instance_uuid': uuid}
                )
                names.update((move.uuid, name) for move in moves)
        for name in model.servers:
            self._check_server(name, model)
        for host in HOSTS:
            self._check_placement(host, model, names)
            if host not in model.dead:
                self._check_host(host, model, names)

    def _check_server(self, name, model):
        server = model.servers[name]
        if server.state == 'error' and server.host is None:
            self.assertEqual('ERROR', self.server(name)['status'])
            return
        instance = self.see(name)
        self.assertEqual(
            (server.state, None, server.host),
            (instance.vm_state, instance.task_state, instance.host),
            f'{name}: state, task, host',
        )
        texts = [instance.system_metadata.get(key) for key in _RECORDS]
        records = [
            record.Record.decode(text) for text in texts if text not in _NONE
        ]
        self.assertEqual(
            [(hold.ppm, hold.cpus) for hold in server.holds],
            [
                (rec.ppm, rec.cpus)
                for rec in records
                if rec.cpus  # none while it is offloaded
            ],
            f'{name}: records',
        )
        if server.host is not None and server.host not in model.dead:
            guest = self.guest({'id': instance.uuid}, server.host)
            self.assertEqual(server.runs, guest.is_active(), f'{name}: runs')
            if server.runs and server.ppm:
                kernels = self.computes[server.host].driver._rt_host
                held = self.reservations(server.host).held
                actual = held.get_actual(instance.uuid, records[0])
                self.assertIsNone(
                    kernels.check(guest.id, actual), f'{name}: kernel'
                )

    def _check_placement(self, host, model, names):
        allocations = self._get_allocations_by_provider_uuid(
            self.compute_rp_uuids[host]
        )
        held = collections.Counter()
        for uuid, each in allocations.items():
            ppm = each['resources'].get(extra_specs.RESOURCE_CLASS, 0)
            held[names.get(uuid, uuid)] += ppm
        expected = {
            name: sum(hold.total_ppm for hold in holds)
            for name, holds in model.on(host).items()
        }
        self.assertEqual(expected, dict(+held), f'{host}: allocations')
        self.assertEqual(held.total(), self.used(host), f'{host}: used')

    def _check_host(self, host, model, names):
        held = self.reservations(host).held
        claims = {
            names.get(uuid, uuid): sorted(
                (rec.ppm, rec.cpus)
                for rec in slots.list_claims(lambda asked: asked.ppm)
            )
            for uuid, slots in held.list_all().items()
            if slots.records
        }
        expected = {
            name: sorted((hold.ppm, hold.cpus) for hold in holds)
            for name, holds in model.on(host).items()
        }
        self.assertEqual(expected, claims, f'{host}: claims')
        free = self._subtract(host, itertools.chain(*claims.values()))
        self.assertEqual(free, self.published(host), f'{host}: published')
        free = self._subtract(
            host,
            (
                (rec.ppm, rec.cpus)
                for rec in itertools.chain(*held.claims().values())
            ),
        )
        self.assertTrue(min(free.values()) >= 0, f'{host}: {free}')
        for uuid, adapted in self.list_boosted(host).items():
            # No more than what is claimed, and its flavor allows.
            rec, name = held.get(uuid).current, names.get(uuid, uuid)
            most_ppm = (rec.request.boosted_us or 0) * 1000
            self.assertTrue(
                rec.ppm <= adapted.actual.ppm <= adapted.claim.ppm <= most_ppm,
                f'{name}: boost',
            )
        running = [
            name
            for name, server in model.servers.items()
            if server.host == host and server.runs
        ]
        self.assertEqual(len(running), self.running(host), f'{host}: groups')

    def _subtract(self, host, claims):
        free = dict(self.capacity(host))
        for ppm, cpus in claims:
            for cpu in cpus:
                free[cpu] -= ppm
        return free

    def check_empty(self):
        """Nothing is left of a sequence."""
        for host in HOSTS:
            self.assertEqual(set(), self.domains(host), host)
            self.assertEqual([], self.groups(host), host)
            self.assertEqual(
                {},
                self._get_allocations_by_provider_uuid(
                    self.compute_rp_uuids[host]
                ),
                host,
            )
        self.assertEqual(set(), self.mounted)
