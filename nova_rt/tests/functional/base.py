# SPDX-License-Identifier: Apache-2.0
"""Nova's API, scheduler, conductor, Placement and our compute, in process.

Everything is real but libvirt and the kernel: each host has a fake kernel
that answers like the one it stands for, errno included.
"""

import contextlib
import errno
import json
import pathlib

import fixtures
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects, service
from nova.tests.functional.libvirt import base
from nova.virt.libvirt import guest as libvirt_guest
from testtools import content

from nova_rt import conf as nova_rt_conf
from nova_rt import events
from nova_rt.cmd import compute, hooks
from nova_rt.host import owners
from nova_rt.privsep import orphans
from nova_rt.reservation import extra_specs, node_stats, record, resources
from nova_rt.reservation.request import Request
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.functional import containers, paste, quick, waiting
from nova_rt.virt.libvirt import driver, metadata

FILTER = 'nova_rt.scheduler.filters.rt_bandwidth_filter.RTBandwidthFilter'
WEIGHER = 'nova_rt.scheduler.weights.rt_bandwidth.RTBandwidthWeigher'


class RTServersTestBase(waiting.PatientMixin, base.ServersTestBase):
    """Hosts with fake kernels, and what tests ask of them."""

    microversion = 'latest'
    ADDITIONAL_FILTERS = ['RTBandwidthFilter']

    #: The interface that the kernels of the hosts offer.
    INTERFACE = 'v2-rt-max-cpu'
    CPUS = 4
    #: CPUs of each NUMA node; None for a kernel without NUMA.
    NODES = None
    #: The details of faults for users: most tests look for the numbers.
    REFUSAL_DETAILS = 'full'
    #: 100 ranges; no host has accounts there.
    ID_POOL = '3000041472:6553600'

    def setUp(self):
        self.useFixture(quick.Quick())
        hooks.extend_nova_virt()
        paste_file = self.useFixture(paste.APIPaste()).path
        self.flags(api_paste_config=paste_file, group='wsgi')
        self.flags(virt_type='lxc', group='libvirt')
        self.flags_of_ours(id_pool=self.ID_POOL)
        self.flags(wait_soft_reboot_seconds=1, group='libvirt')
        self.flags_of_ours(refusal_details=self.REFUSAL_DETAILS)
        # In Nova's tests $state_path is where the packages are.
        self.counters_file = (
            pathlib.Path(self.useFixture(fixtures.TempDir()).path)
            / 'nova_rt' / 'counters.json'
        )  # fmt: skip
        self.flags(
            counters_file=str(self.counters_file), group='nova_rt_exporter'
        )
        self.flags(
            available_filters=['nova.scheduler.filters.all_filters', FILTER],
            weight_classes=['nova.scheduler.weights.all_weighers', WEIGHER],
            group='filter_scheduler',
        )
        self.stub_out(
            'nova.service.SERVICE_MANAGERS',
            {
                **service.SERVICE_MANAGERS,
                'nova-compute': compute.MANAGER,
                'nova-scheduler': (
                    'nova_rt.scheduler.manager.RTSchedulerManager'
                ),
            },
        )
        # A fake kernel gives bandwidth back at once.
        for name in ('cgroup.PATIENCE_S', 'host._CLAIM_PATIENCE_S'):
            self.stub_out(f'nova_rt.host.{name}', 0.05)
        # Checks of a test follow each other at once.
        self.stub_out('nova_rt.tracking.stop_policy.CONFIRM_S', 0)
        self.containers = self.useFixture(containers.Containers())
        self.kernels = self.containers.kernels
        #: Root file systems that are mounted, by directory.
        self.mounted = set()
        #: Servers whose root file systems had their owners mapped, in order,
        #: with the first ID of their range.
        self.mapped = []
        #: Processes of the containers that were limited, in order.
        self.limited = []
        #: (such a process, number of tasks), in order.
        self.task_limits = []
        #: Processes that were kept from the out-of-memory killer, in order.
        self.kept = []
        #: (such a process, the highest priority that it may take), in order.
        self.priorities = []
        self._fake_mounts()
        self.stub_out(
            'nova_rt.host.files.Files.allow_priority',
            lambda files, *args: self.priorities.append(args),
        )
        self._fake_hosts()
        self.flags(use_cow_images=False)
        self.flags(images_type='raw', group='libvirt')
        super().setUp()
        self._make_disks()
        self.ctxt = nova_context.get_admin_context()

    def _setup_compute_service(self):
        self.flags(compute_driver=driver.COMPUTE_DRIVER)

    def _fake_mounts(self):
        def mount(image, container_dir):
            self.mounted.add(container_dir)
            return '/dev/loop7'

        def unmount(container_dir, container_root_device=None):
            self.mounted.discard(container_dir)

        def map_owners(files, server, first_id):
            self.assertIn(
                server, [path.split('/')[-2] for path in self.mounted]
            )
            self.mapped.append((server, first_id))

        def check(files, pool, instances_path):
            self.assertEqual(base.CONF.nova_rt.id_pool, pool)
            self.assertEqual(base.CONF.instances_path, instances_path)

        def limit(files, controller):
            self.limited.append(controller)

        def keep_from_oom(files, controller):
            self.kept.append(controller)

        def limit_tasks(files, group, most):
            pid = orphans.read_pid(group.name)
            self.task_limits.append((pid, most))

        self.stub_out('nova_rt.host.limits.check_task_limits', lambda: None)
        for name, fake in (
            ('map_owners', map_owners), ('check_mount_helper', check),
            ('limit', limit), ('limit_tasks', limit_tasks),
            ('keep_from_oom', keep_from_oom),
        ):  # fmt: skip
            self.stub_out(f'nova_rt.host.files.Files.{name}', fake)
        for name, fake in (
            ('setup_container', mount),
            ('teardown_container', unmount),
            ('clean_lxc_namespace', unmount),
        ):
            self.stub_out(f'nova.virt.disk.api.{name}', fake)

    def _make_disks(self):
        """Nova's own fixture makes none, not even a file."""

        def create_image(nova_driver, context, instance, *args, **kwargs):
            path = self.disk(instance)
            made = not path.parent.exists(), not path.exists()
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f'image {instance.image_ref}')
                notes = json.dumps({str(path): 'raw'})
                path.with_name('disk.info').write_text(notes)
            return made

        self.stub_out(
            'nova.virt.libvirt.driver.LibvirtDriver._create_image',
            create_image,
        )

    @staticmethod
    def disk(instance):
        """The root disk; all hosts share what they store."""
        return pathlib.Path(base.CONF.instances_path) / instance.uuid / 'disk'

    def _fake_hosts(self):
        """Make the driver of each host work on that host's fake kernel."""
        self.stub_out(
            'nova_rt.host.host.Files',
            lambda: self.kernels[base.CONF.host].files,
        )

    def start_compute(self, hostname='compute1', *args, **kwargs):
        if hostname not in self.kernels:
            self.kernels[hostname] = self.useFixture(
                kernel.make(self.INTERFACE, cpus=self.CPUS, nodes=self.NODES)
            )
        return super().start_compute(hostname, *args, **kwargs)

    def assert_not_started(self, *texts):
        """The service refuses to start, and says this."""
        refusal = self.assertRaises(
            nova_exception.InvalidConfiguration, self.start_compute
        )
        for text in texts:
            self.assertIn(text, str(refusal))

    def fail_restart(self, hostname='compute1'):
        """A service ends, and refuses to start again.

        :returns: its refusal
        """
        kept = self.computes[hostname], self.compute_rp_uuids[hostname]
        refusal = self.assertRaises(
            nova_exception.InvalidConfiguration,
            self.restart_compute_service,
            hostname,
        )
        self.computes[hostname], self.compute_rp_uuids[hostname] = kept
        return refusal

    @contextlib.contextmanager
    def case(self, *of):
        """Within, a failure says which of the cases of a test it is."""
        try:
            yield
        except Exception:
            self.addDetail('case', content.text_content(repr(of)))
            raise

    def flags_of_ours(self, **values):
        self.flags(group='nova_rt', **values)

    def skip_api_filter(self):
        """Stand in for a nova-api without our filter."""
        self.stub_out(
            'nova_rt.api.middleware.RequestValidator.process_request',
            lambda validator, req: None,
        )

    def forget_filters(self):
        """Leave it to the compute, as a scheduler with an old picture does."""
        self.scheduler.manager.host_manager.enabled_filters = []

    def prepare_commands(self):
        """Let nova-rt-manage run in this process, without its pauses."""
        # The database fixture has configured it.
        self.stub_out(
            'nova.db.api.api.context_manager.configure', lambda **options: None
        )
        self.stub_out('nova_rt.manage.audit.reading._SETTLE_S', 0)
        nova_rt_conf.register_opts(base.CONF)

    def owners_of_others(self):
        """Within, the disks of servers may have files of users 0 to 99999."""
        found = owners.Owners.parse('0-99999;0-99999')
        return fixtures.MonkeyPatch(
            'nova_rt.lxc.disk_owners._read', lambda instance: found
        )

    def lose_reservation(self, server, hostname='compute1'):
        """Someone resets the files of a running container."""
        self.kernels[hostname].reset(self.guest(server, hostname).id)

    def refuse_writes(self, number=errno.EINVAL, hostname='compute1'):
        """From now on the kernel refuses every reservation."""
        self.kernels[hostname].refuse(number)

    def groups(self, hostname='compute1'):
        """The groups that the kernel has for containers."""
        partition = self.kernels[hostname].partition
        return [path.name for path in partition.iterdir() if path.is_dir()]

    def writes(self, hostname='compute1'):
        """List what was written to the groups of containers."""
        return [
            (path, text)
            for path, text in self.kernels[hostname].writes
            if path.parent.name.startswith('lxc-')
        ]

    # Asking for servers

    def rt_flavor(
        self, reservation='600/1000', vcpus=1, *, whole=False, **specs
    ):
        """Make a flavor; further extra specs as policy='fifo'.

        :param whole: spell out what it asks of Placement
        """
        extra = {extra_specs.RESERVATION: reservation}
        extra.update({f'rt:{key}': value for key, value in specs.items()})
        weaker = {'v1-throttle': 'limit', 'v2-sched-ext': 'soft'}
        if self.INTERFACE in weaker:
            extra.setdefault(extra_specs.ENFORCEMENT, weaker[self.INTERFACE])
        if whole:
            extra |= resources.ask(Request.from_flavor(extra, vcpus))
        return self._create_flavor(
            memory_mb=64, vcpu=vcpus, disk=10, ephemeral=0, extra_spec=extra
        )

    def plain_flavor(self):
        return self._create_flavor(memory_mb=64, vcpu=1, disk=10, ephemeral=0)

    def server_request(self, flavor, hint=None, **fields):
        """The body of POST /servers."""
        server = self._build_server(
            flavor_id=flavor,
            networks='none',
            image_uuid='155d900f-4e14-4e4c-a73d-069cbf4541e6',
        )
        server.update(fields)
        body = {'server': server}
        if hint is not None:
            body['os:scheduler_hints'] = {extra_specs.HINT: hint}
        return body

    def create(self, flavor, hint=None, state='ACTIVE', **fields):
        """Create a server and wait for it."""
        server = self.api.post_server(
            self.server_request(flavor, hint, **fields)
        )
        return self._wait_for_state_change(server, state)

    def ask_for(self, server, action, arguments=None, state='ACTIVE'):
        """Ask for something, and wait for the state that it ends in."""
        self.api.post_server_action(server['id'], {action: arguments})
        return self._wait_for_state_change(server, state)

    def ask_in_vain(self, server, action, arguments, event, name=None):
        """Ask for something that fails.

        :param event: the event of the action that ends with an error
        :param name: of the action in the list of actions, if another
        :returns: this event
        """
        self.api.post_server_action(server['id'], {action: arguments})
        return self._wait_for_instance_action_event(
            server, name or action, event, 'error'
        )

    def wait_idle(self, server, state='ACTIVE'):
        return self._wait_for_server_parameter(
            server, {'status': state, 'OS-EXT-STS:task_state': None}
        )

    def verify(self, hostname='compute1'):
        """Run the periodic check of a host."""
        self.computes[hostname].manager._verify_reservations(self.ctxt)

    # Looking at what became of them

    def instance(self, server):
        return objects.Instance.get_by_uuid(
            self.ctxt, server['id'], expected_attrs=['system_metadata']
        )

    def record_of(self, server):
        """Read the server's record from the database."""
        text = self.instance(server).system_metadata[record.KEY]
        return record.Record.decode(text)

    def guest(self, server, hostname='compute1'):
        connection = self.computes[hostname].driver._host.get_connection()
        return libvirt_guest.Guest(connection.lookupByUUIDString(server['id']))

    def domains(self, hostname='compute1'):
        """UUIDs of the domains that are defined."""
        return set(self.computes[hostname].driver.list_instance_uuids())

    def allocated(self, server):
        """Bandwidth that Placement holds for a server, all hosts."""
        allocations = self.placement.get(f'/allocations/{server["id"]}').body[
            'allocations'
        ]
        return sum(
            held['resources'].get(extra_specs.RESOURCE_CLASS, 0)
            for held in allocations.values()
        )

    def traits(self, hostname='compute1'):
        return self._get_provider_traits(self.compute_rp_uuids[hostname])

    def inventory(self, hostname='compute1', name=extra_specs.RESOURCE_CLASS):
        """The inventory of a host's bandwidth, or of another resource."""
        provider = self.compute_rp_uuids[hostname]
        return self._get_provider_inventory(provider)[name]

    def used(self, hostname='compute1'):
        """Bandwidth that Placement counts as used on a host."""
        usages = self._get_provider_usages(self.compute_rp_uuids[hostname])
        return usages.get(extra_specs.RESOURCE_CLASS, 0)

    def reservations(self, hostname='compute1'):
        """Return what driver, tracker and manager of a host share."""
        return self.computes[hostname].driver.reservations

    def listen(self, hostname='compute1'):
        """From now on, collect the events of a host."""
        seen = []
        self.reservations(hostname).dispatcher.subscribe(seen.append)
        return seen

    def repairs(self, hostname='compute1'):
        """Count the repairs of the service since its start."""
        return self.reservations(hostname).counter.get(events.Repaired)

    def claims(self, hostname='compute1'):
        """Return what servers must have while they run: UUID -> claim."""
        held = self.reservations(hostname).held
        return {
            uuid: slots.current
            for uuid in held.list_all()
            if isinstance((slots := held.get(uuid)).current, record.Record)
        }

    def stats(self, hostname='compute1'):
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            self.ctxt, hostname
        )
        return node.stats

    def capacity(self, hostname='compute1'):
        """CPU -> ppm on a host without servers."""
        return dict(self.computes[hostname].driver._rt_host.capacity().cpus)

    def overhead_us(self, hostname='compute1'):
        """Microseconds of each period that a reservation costs on a host."""
        return self.computes[hostname].driver._rt_host.capacity().overhead_us

    def published(self, hostname='compute1'):
        """Return what the scheduler sees: CPU -> free ppm."""
        return node_stats.parse(self.stats(hostname)).cpus

    def held(self, server, hostname='compute1'):
        """Read what the kernel holds for the running container."""
        pid = self.guest(server, hostname).id
        return kernel.read_held(self.computes[hostname].driver._rt_host, pid)

    def assert_held(self, server, hostname='compute1'):
        """Database, domain, claim, Placement and kernel say the same."""
        rec = self.record_of(server)
        guest = self.guest(server, hostname)
        self.assertTrue(guest.is_active())
        self.assertEqual(rec, metadata.parse_record(guest).record)
        self.assertEqual(rec, self.claims(hostname)[server['id']])
        self.assertEqual(rec.request.total_ppm, self.allocated(server))
        host = self.computes[hostname].driver._rt_host
        self.assertIsNone(host.check(guest.id, rec))
        return rec

    def assert_nothing_left(self, hostname='compute1', of=()):
        """No claim, allocation, domain or mount of these servers."""
        for server in of:
            # Nova gives it up after it has said ERROR.
            self._wait_for_assert(
                lambda uuid=server: self.assertEqual(0, self.allocated(uuid))
            )
            self.assertNotIn(server['id'], self.claims(hostname))
            self.assertNotIn(server['id'], self.domains(hostname))
        self.assertEqual(set(), self.mounted)
        self.assertEqual(len(self.domains(hostname)), self.running(hostname))

    def running(self, hostname='compute1'):
        return len(self.groups(hostname))


def fault_of(server):
    """The text that a user sees."""
    return server['fault']['message']
