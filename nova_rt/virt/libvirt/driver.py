# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver for LXC containers with reservations.

Nova handles servers of ordinary flavors as usual, with two exceptions: their
root disks (:mod:`nova_rt.lxc.containers`), and the network namespace that
every container gets.
"""

import functools
from typing import Any, NoReturn

from nova import exception as nova_exception
from nova.virt import event as virtevent
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver
from nova.virt.libvirt import guest as libvirt_guest
from oslo_log import log as logging
from oslo_utils import excutils

from nova_rt import conf, events, exception, faults
from nova_rt.conf import nova as nova_conf
from nova_rt.host import host as rt_host
from nova_rt.host import idmaps, limits, options
from nova_rt.lxc import (
    connections,
    containers,
    features,
    id_ranges,
)
from nova_rt.reservation import extra_specs, record, resources
from nova_rt.tracking import reservations, servers, stop_policy
from nova_rt.virt.libvirt import host_boot, metadata, running

CONF = driver.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)

#: Value of ``[DEFAULT] compute_driver``, a name below nova.virt.
COMPUTE_DRIVER = 'nova_rt.RTLibvirtDriver'

#: The largest amount that Placement takes (placement/db/constants.py).
_MAX_UNIT = 0x7FFFFFFF


class _Ended(BaseException):
    """Ends a thread that catches every Exception."""


def _end_thread() -> NoReturn:
    raise _Ended


class RTLibvirtDriver(containers.ContainerDriver):
    """A driver of containers with the reservations in their records.

    :ivar reservations: of this host's servers; the manager passes them to the
        resource tracker
    :ivar running: the containers that run on this host
    """

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        self._rt_host = rt_host.Host.from_options(
            options.Options.from_group(CONF.nova_rt, nova_conf.read_cpus(CONF))
        )
        #: Name of this host, as instances have it.
        self._rt_name = ''
        self.reservations = reservations.Reservations(self._rt_host)
        self.running = running.RunningContainers(
            self._rt_host,
            self._host,
            self.reservations,
            stop_policy.StopPolicy(CONF.nova_rt.max_stops_per_minute),
        )

    # The host

    def init_host(self, host):
        """Probe the kernel first: the service needs an interface to start."""
        if CONF.libvirt.virt_type != 'lxc':
            raise nova_exception.InvalidConfiguration(
                'nova-rt-compute makes LXC containers: set [libvirt] '
                f'virt_type = lxc, not {CONF.libvirt.virt_type}'
            )
        try:
            if self._rt_wants_user_namespaces():
                pool = idmaps.read_pool(CONF.nova_rt.id_pool)
                self._rt_ids = id_ranges.IDRanges(pool, self._host)
                self._rt_host.check_delegation()
                self._rt_host.check_children()
                idmaps.check_helper(pool, CONF.instances_path)
            if CONF.nova_rt.max_tasks:
                limits.check_task_limits()
            self._rt_host.start()
        except exception.HostError as err:
            raise nova_exception.InvalidConfiguration(str(err)) from err
        promise = self._rt_host.capability.enforcement
        if self._rt_ids is None and promise is extra_specs.Enforcement.SOFT:
            raise nova_exception.InvalidConfiguration(
                'the root of a container without user namespace may take a '
                'real-time policy, which stands above all reservations of '
                'nova-rt-sched: set [nova_rt] id_pool'
            )
        no_fuse = self._rt_host.find_no_fuse()
        if no_fuse:
            LOG.error('%s', no_fuse)
        in_namespaces = self._rt_ids is not None
        self.running.protection.limits = in_namespaces
        self.running.protection.max_tasks = CONF.nova_rt.max_tasks
        self._rt_name = host
        super().init_host(host)
        if self._rt_ids is not None:
            LOG.info(
                'Each container has a user namespace and one of %s ranges of '
                'IDs of its own: the warning above does not apply',
                len(self._rt_ids.pool.ranges),
            )

    @staticmethod
    def _rt_wants_user_namespaces() -> bool:
        """Tell whether containers will have user namespaces.

        :returns: True if a pool of IDs is set
        :raises InvalidConfiguration: if the options are unsafe together
        """
        if CONF.libvirt.uid_maps or CONF.libvirt.gid_maps:
            raise nova_exception.InvalidConfiguration(
                '[libvirt] uid_maps and gid_maps give all containers the same '
                'IDs, and their roots could reach each other: remove both. '
                '[nova_rt] id_pool, by default '
                f'{CONF.nova_rt.id_pool}, gives each server a range of its '
                'own, from its next start on'
            )
        if not CONF.nova_rt.id_pool and not CONF.nova_rt.allow_host_root:
            raise nova_exception.InvalidConfiguration(
                'without user namespaces, the root of a container is root of '
                'this host: set [nova_rt] id_pool, or [nova_rt] '
                'allow_host_root if all users of this cloud may be root here'
            )
        return bool(CONF.nova_rt.id_pool)

    def cleanup_host(self, host):
        """End the thread for events of connections, too.

        It would run for ever, in a thread pool. Nova waits for the end of that
        pool for ``[DEFAULT] manager_shutdown_timeout``: minutes for each stop.
        """
        super().cleanup_host(host)
        self._host._conn_event_handler_queue.put(_end_thread)

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Add the bandwidth and the traits of its enforcement."""
        known = provider_tree.data(nodename).inventory
        had = extra_specs.RESOURCE_CLASS in known
        super().update_provider_tree(provider_tree, nodename, allocations)
        inventory = dict(provider_tree.data(nodename).inventory)
        total = self._rt_host.capacity().total_ppm
        if total or had:
            # If others have taken all bandwidth, allocations may remain. An
            # inventory with allocations cannot be removed, and its total
            # cannot be 0.
            inventory[extra_specs.RESOURCE_CLASS] = {
                'total': max(1, total),
                'reserved': 0 if total else 1,
                'min_unit': 1,
                # The CPUs bound the bandwidth of one server. A max_unit that
                # shrinks with them would block moves of a server's
                # allocations.
                'max_unit': _MAX_UNIT,
                'step_size': 1,
                'allocation_ratio': 1.0,
            }
        provider_tree.update_inventory(nodename, inventory)
        enforcement = self._rt_host.capability.enforcement
        for promise, trait in resources.TRAITS.items():
            if enforcement.fulfils(promise):
                provider_tree.add_traits(nodename, trait)
            else:
                provider_tree.remove_traits(nodename, trait)
        if self._rt_host.capacity().spare is not None:
            provider_tree.add_traits(nodename, extra_specs.TRAIT_SPARE)
        else:
            provider_tree.remove_traits(nodename, extra_specs.TRAIT_SPARE)

    # Starting containers

    def _rt_record(self, instance: Any) -> record.Record | None:
        """Read the record that a server needs to run on this host.

        :returns: None if it is not real-time
        :raises ReservationNotHeld: if it cannot be read
        """
        try:
            return servers.read_for(instance, self._rt_name)
        except exception.InvalidRecord as err:
            raise faults.ReservationNotHeld(reason=faults.tell(err)) from err

    def _get_guest_config(self, instance, *args, **kwargs):
        """Add CPUs, record, capabilities and a private network namespace."""
        rec = self._rt_record(instance)
        guest = super()._get_guest_config(instance, *args, **kwargs)
        # Without it, a container that has no port shares the network
        # namespace of the host (libvirt src/lxc/lxc_container.c,
        # lxcNeedNetworkNamespace()).
        guest.add_feature(vconfig.LibvirtConfigGuestFeature('privnet'))
        if self._rt_ids is not None:
            guest.add_feature(features.LibvirtConfigGuestFeatureCapabilities())
        if rec is not None:
            guest.cpuset = set(rec.cpus)
            guest.metadata.append(
                metadata.LibvirtConfigGuestMetaReservation(
                    self.reservations.held.describe(instance.uuid, rec)
                )
            )
        return guest

    def _create_guest(
        self,
        context: Any,
        xml: str,
        instance: Any,
        power_on: bool = True,
        pause: bool = False,
        post_xml_callback: Any = None,
    ) -> libvirt_guest.Guest:
        """Apply the reservation to a started container, or stop it again."""

        def create() -> libvirt_guest.Guest:
            return super(RTLibvirtDriver, self)._create_guest(
                context, xml, instance, power_on, pause, post_xml_callback
            )

        def start() -> libvirt_guest.Guest:
            guest = create()
            connections.ensure(guest, lambda: start_again(guest))
            return guest

        def start_again(guest: libvirt_guest.Guest) -> None:
            # Its network devices have gone with the container; Open vSwitch
            # takes new ones of the same names only as new ports.
            network_info = instance.get_network_info()
            self.unplug_vifs(instance, network_info)
            self.plug_vifs(instance, network_info)
            guest.launch(pause=pause)

        rec = self._rt_record(instance)
        if not (power_on or pause):
            return create()
        stop = functools.partial(self._rt_stop_started, instance)
        try:
            with self.running.starting(instance.uuid, rec):
                guest = start()
                if rec is None:
                    self.running.protection.protect(instance.uuid, stop)
                else:
                    self.running.apply(guest, rec, stop)
                    host_boot.forget(instance)
        except exception.HostError as err:
            raise faults.ReservationNotHeld(reason=faults.tell(err)) from err
        except Exception:
            # It may run by now. Nova does not stop it: it has no guest.
            with excutils.save_and_reraise_exception():
                self._rt_stop_failed(instance)
        return guest

    def _rt_stop_failed(self, instance: Any) -> None:
        """Stop a container after a start that failed, if that is possible."""
        try:
            self._destroy(instance)
        except Exception as err:
            LOG.error(
                'Cannot stop the container after a start that failed: %s',
                faults.describe(err), instance=instance,
            )  # fmt: skip

    def _destroy(self, instance):
        """Remove the task limits of the container, too."""
        super()._destroy(instance)
        self.running.orphans.sweep()

    def _rt_stop_started(self, instance: Any) -> None:
        """Stop a container while its root file system is mounted here."""
        self._create_domain_cleanup_lxc(instance)
        self._destroy(instance)

    def reboot(
        self, context, instance, network_info, reboot_type,
        block_device_info=None, bad_volumes_callback=None,
        accel_info=None, share_info=None,
    ):  # fmt: skip
        """Shut the container down for a soft reboot, then reboot it hard.

        Nova's own soft reboot starts the same domain again, but by then the
        root file system of a container is not mounted any more.
        """
        if reboot_type == 'SOFT' and servers.is_rt(instance):
            timeout = CONF.libvirt.wait_soft_reboot_seconds
            # An init that was about to start misses the first request.
            retry_s = CONF.compute.shutdown_retry_interval
            self._clean_shutdown(instance, timeout, retry_interval=retry_s)
            reboot_type = 'HARD'
        return super().reboot(
            context, instance, network_info, reboot_type, block_device_info,
            bad_volumes_callback, accel_info, share_info,
        )  # fmt: skip

    # Containers that run already

    def process_instances_at_startup(self, context, instances):
        """Adopt running containers: verify them, and repair them if needed."""
        self.reservations.adopt(instances)
        self._rt_refuse_outside()
        weaker = self.running.report_weaker()
        host_boot.retry(instances, lambda uuid: uuid not in weaker)
        self.running.orphans.reclaim()
        for instance in instances:
            # Each by itself: a fault of one of them, such as an error of
            # libvirt, must not leave the others without a service.
            self._rt_resume_feedback(instance)
            self.running.verify(instance.uuid)
        return super().process_instances_at_startup(context, instances)

    def _rt_resume_feedback(self, instance: Any) -> None:
        """Count what the last service has let a server have."""
        try:
            self.running.adapting.resume(instance.uuid, CONF.nova_rt.adapt)
        except Exception as err:
            # The check that follows reports it, or restores the record.
            LOG.warning(
                'Cannot resume feedback: %s', faults.describe(err),
                instance=instance,
            )  # fmt: skip

    def resume_state_on_host_boot(
        self, context, instance, network_info, share_info,
        block_device_info=None,
    ):  # fmt: skip
        """Record the refusal to resume a server for its user, too."""
        try:
            super().resume_state_on_host_boot(
                context, instance, network_info, share_info, block_device_info
            )
        except faults.ReservationNotHeld as err:
            host_boot.note_refusal(context, instance, err)
            raise

    def _rt_refuse_outside(self) -> None:
        """Refuse to start if running servers are in another partition.

        They would all be stopped without a fault of their own.
        """
        outside = self.running.find_outside()
        if outside:
            uuid, group = min(outside.items())
            raise nova_exception.InvalidConfiguration(
                f'{len(outside)} real-time server(s) run outside of '
                f'{self.reservations.capability.partition}, for example '
                f'{uuid} in {group}: set [nova_rt] partition back to the one '
                'that they were started in, or stop them first'
            )

    def emit_event(self, event: virtevent.InstanceEvent) -> None:
        """Verify a container that other programs have started.

        The check runs in another thread: this one is libvirt's event loop.
        """
        if (
            isinstance(event, virtevent.LifecycleEvent)
            and event.get_transition() == virtevent.EVENT_LIFECYCLE_STARTED
        ):
            self.running.verify_started(event.get_instance_uuid())
        super().emit_event(event)

    # Usage

    def get_instance_diagnostics(self, instance):
        """Add the kernel's usage counts of the reservation.

        Nova takes CPU time from libvirt, which reports none for containers.
        The virtual CPUs are the server's CPUs in ascending order.
        """
        diagnostics = super().get_instance_diagnostics(instance)
        if servers.is_rt(instance) and not diagnostics.num_cpus:
            try:
                usage = self.running.read_usage(instance.uuid)
            except (OSError, exception.InvalidRecord) as err:
                LOG.warning(
                    'Cannot read usage of reservation: %s',
                    faults.describe(err), instance=instance,
                )  # fmt: skip
                usage = {}
            for number, cpu in enumerate(sorted(usage)):
                diagnostics.add_cpu(id=number, time=usage[cpu].used_us * 1000)
        return diagnostics

    # Actions that containers do not support

    def suspend(self, context, instance):
        """Refuse: libvirt-lxc cannot save the state of a container."""
        if servers.is_rt(instance):
            raise nova_exception.InstanceFaultRollback(
                nova_exception.InstanceSuspendFailure(
                    reason=self.reservations.refuse(
                        instance.uuid,
                        events.Action.SUSPEND,
                        'real-time servers are containers: their state '
                        'cannot be saved',
                    )
                )
            )
        super().suspend(context, instance)

    def check_can_live_migrate_destination(
        self, context, instance, src_compute_info, dst_compute_info,
        block_migration=False, disk_over_commit=False,
    ):  # fmt: skip
        """Refuse live migration of a real-time server."""
        if servers.is_rt(instance):
            raise nova_exception.MigrationPreCheckError(
                reason=self.reservations.refuse(
                    instance.uuid, events.Action.MOVE, faults.CANNOT_GO_LIVE
                )
            )
        return super().check_can_live_migrate_destination(
            context, instance, src_compute_info, dst_compute_info,
            block_migration, disk_over_commit,
        )  # fmt: skip
