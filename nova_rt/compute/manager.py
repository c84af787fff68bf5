# SPDX-License-Identifier: Apache-2.0
"""Nova's compute manager, with reservations.

It transfers a request from the RequestSpec, which the driver never sees, to
the server's record, and verifies all reservations periodically. The request
for a server's next host is recorded before the claim. It becomes the server's
record in the step that saves the server there, and is removed if the move
fails.
"""

from collections.abc import Iterator
import contextlib
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova.compute import manager, task_states
from nova.objects import fields
from oslo_log import log as logging
from oslo_service import periodic_task, systemd

from nova_rt import conf, events, faults, revert
from nova_rt.compute import (
    adapted_records,
    boosts,
    changes,
    counters,
    feedback,
    history,
    notifications,
    queued_listener,
    requests,
    resource_tracker,
    stopped,
)
from nova_rt.conductor import queue
from nova_rt.conf import exporter
from nova_rt.conf import nova as nova_conf
from nova_rt.host.options import Options
from nova_rt.lxc import user_namespaces
from nova_rt.moves import (
    destinations,
    endings,
    interrupted,
    orphaned_instances,
)
from nova_rt.reservation import bounds, record
from nova_rt.tracking import servers
from nova_rt.virt.libvirt import driver

CONF = manager.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


@contextlib.contextmanager
def _going_on(message: str, instance: Any) -> Iterator[None]:
    """Log errors and go on: other servers of this host need the service.

    :raises InstanceNotFound: passed on
    """
    try:
        yield
    except nova_exception.InstanceNotFound:
        raise
    except Exception:
        LOG.exception(message, instance=instance)


class RTComputeManager(manager.ComputeManager):
    """A ComputeManager for hosts with reservations."""

    def __init__(self, compute_driver=None, *args, **kwargs):
        super().__init__(compute_driver, *args, **kwargs)
        self._rt_history = self.rt_feedback = None
        self.rt_boosts: Any = None
        ours = isinstance(self.driver, driver.RTLibvirtDriver)
        self.rt = resource_tracker.RTResourceTracker(
            self.host,
            self.driver,
            reportclient=self.reportclient,
            reservations=self.driver.reservations if ours else None,
        )
        self._rt_requests = requests.Requests(
            self.driver, bounds.Bounds.from_options(CONF.nova_rt)
        )
        self.rt_changes = changes.Changes(self)
        self.additional_endpoints.append(self.rt_changes)
        self._rt_counters = counters.Counters(
            exporter.find_counters(CONF),
            Options.from_group(CONF.nova_rt, nova_conf.read_cpus(CONF)),
            verifies=CONF.nova_rt.verify_interval > 0,
        )

    def init_host(self, service_ref):
        """Refuse to start with a driver without reservations.

        End evacuations that the last service has left unfinished, before this
        one counts the claims of servers.
        """
        if not isinstance(self.driver, driver.RTLibvirtDriver):
            raise nova_exception.InvalidConfiguration(
                'nova-rt-compute needs [DEFAULT] compute_driver = '
                f'{driver.COMPUTE_DRIVER}'
            )
        dispatcher = self.driver.reservations.dispatcher
        dispatcher.subscribe(
            queued_listener.QueuedListener(stopped.StopReporter(self.host))
        )
        dispatcher.subscribe(
            queued_listener.QueuedListener(self.driver.running.note_slots)
        )
        dispatcher.subscribe(self._rt_counters)
        self._rt_counters.start()
        channels = []
        if CONF.nova_rt.report:
            self._rt_history = history.History(
                queue.Sender(CONF), self._rt_counters.note_dropped
            )
            self._rt_history.start()
            channels.append(self._rt_history)
        notifications.subscribe(dispatcher, self.host, *channels)
        if CONF.nova_rt.adapt:
            self.rt_boosts = boosts.Boosts(
                self, self._rt_counters.note_adaptation
            )
            # Nova starts servers again below, after a boot of the host.
            dispatcher.subscribe(self.rt_boosts)
            self.driver.reservations.boosting = self.rt_boosts
        super().init_host(service_ref)
        if CONF.nova_rt.adapt:
            self.rt_boosts.resume_all()
            self.rt_boosts.start()
            self.rt_feedback = feedback.Feedback(
                self,
                self._rt_counters.note_adaptation,
                self._rt_counters.note_frozen,
            )
            self._rt_adapted = adapted_records.AdaptedRecords(
                self, self._rt_counters.note_adaptation
            )
            self.rt_feedback.start()
        interrupted.settle(self, nova_context.get_admin_context())

    def _destroy_evacuated_instances(self, context, node_cache):
        """End the evacuations that Nova would leave open, too.

        Nova has checked by now that the host was not renamed.
        """
        interrupted.end_lost(self.host, context)
        return super()._destroy_evacuated_instances(context, node_cache)

    def _init_instance(self, context, instance):
        """Initialize a server, and revert the allocations of its old resize.

        A server that is deleted meanwhile is skipped: nova-api deletes servers
        by itself while this service is down, and Nova fails to start if it
        resumes a task of such a server.
        """
        ended = False
        try:
            if self.rt.rt_is_changing(instance.uuid):
                with _going_on(
                    'Could not end change of reservation', instance
                ):
                    self.rt_changes.settle(context, instance.uuid)
                instance.refresh()
            with _going_on('Could not undo interrupted resize', instance):
                ended = interrupted.end_resize(self, context, instance)
            super()._init_instance(context, instance)
            if not ended:
                return
            # Until here, Nova needed it to restore the server's disk.
            instance.drop_migration_context()
            with _going_on('Could not start server again', instance):
                interrupted.start_again(self, context, instance)
        except nova_exception.InstanceNotFound:
            LOG.warning('Ignoring server deleted during start of this service',
                        instance=instance)  # fmt: skip

    def post_start_hook(self):
        """Resume interrupted resizes, now that this service takes requests.

        Notify systemd as well: the launcher of oslo.service does not, since
        nova-compute runs in the first process.
        """
        super().post_start_hook()
        endings.ask_again(self, nova_context.get_admin_context())
        systemd.notify_once()

    def cleanup_host(self):
        """Stop the threads that init_host() has started."""
        super().cleanup_host()
        for moving in (self.rt_feedback, self.rt_boosts):
            if moving is not None:
                moving.stop()
        if self._rt_history is not None:
            # Events of the last tasks arrive until here.
            self._rt_history.stop()
        self._rt_counters.stop()

    # Building servers

    def _do_build_and_run_instance(
        self, context: Any, instance: Any, image: Any, request_spec: Any,
        filter_properties: Any, admin_password: Any, injected_files: Any,
        requested_networks: Any, security_groups: Any,
        block_device_mapping: Any, node: Any = None, limits: Any = None,
        host_list: Any = None, accel_uuids: Any = None,
    ) -> Any:  # fmt: skip
        """Keep the reason of a failure on the last of the chosen hosts."""
        filter_properties = requests.end_retries(
            filter_properties, host_list, lambda: servers.is_rt(instance)
        )
        result = super()._do_build_and_run_instance(
            context, instance, image, request_spec, filter_properties,
            admin_password, injected_files, requested_networks,
            security_groups, block_device_mapping, node, limits, host_list,
            accel_uuids,
        )  # fmt: skip
        if result == manager.build_results.FAILED_BY_POLICY and servers.is_rt(
            instance
        ):
            # Nova leaves the allocations for this result alone; until the
            # server is deleted, they would keep bandwidth from others.
            self.reportclient.delete_allocation_for_instance(
                context, instance.uuid, force=True
            )
        return result

    def _build_and_run_instance(
        self, context: Any, instance: Any, image: Any, injected_files: Any,
        admin_password: Any, requested_networks: Any, security_groups: Any,
        block_device_mapping: Any, node: Any, limits: Any,
        filter_properties: Any, request_spec: Any = None,
        accel_uuids: Any = None,
    ) -> Any:  # fmt: skip
        """Record the request of the server, then build it."""
        hints = self._get_scheduler_hints(filter_properties, request_spec)
        self._rt_requests.note_new(instance, hints)
        try:
            return super()._build_and_run_instance(
                context, instance, image, injected_files, admin_password,
                requested_networks, security_groups, block_device_mapping,
                node, limits, filter_properties, request_spec, accel_uuids,
            )  # fmt: skip
        except nova_exception.RescheduledByPolicyException:
            # An earlier server violates the policy of the server group:
            # neither this host nor the request is at fault.
            raise
        except nova_exception.RescheduledException as err:
            if filter_properties.get('retry') or not servers.is_rt(instance):
                raise
            # Unlike a reschedule without a next host, an abort also cleans
            # up the server's volumes.
            raise faults.BuildAborted(
                instance_uuid=instance.uuid, reason=faults.tell_failure(err)
            ) from err

    def _nil_out_instance_obj_host_and_node(self, instance):
        """Remove the CPUs from the record of a server without a host.

        Nova calls this when a server was offloaded, and when it could not be
        built or unshelved here; it saves the server afterwards.
        """
        super()._nil_out_instance_obj_host_and_node(instance)
        servers.forget_cpus(instance)

    # Moving servers

    def _do_prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        request_spec: Any, filter_properties: Any, node: Any,
        clean_shutdown: Any, migration: Any, host_list: Any,
    ) -> Any:  # fmt: skip
        """Keep the reason of a failure on the last of the chosen hosts."""
        filter_properties = requests.end_retries(
            filter_properties,
            host_list,
            lambda: servers.is_rt_move(instance, flavor),
        )
        return super()._do_prep_resize(
            context, image, instance, flavor, request_spec,
            filter_properties, node, clean_shutdown, migration, host_list,
        )  # fmt: skip

    def _prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        filter_properties: Any, node: Any, migration: Any,
        request_spec: Any, clean_shutdown: bool = True,
    ) -> Any:  # fmt: skip
        """Record the request for this host before the claim.

        If no other host is left to try, the server stays as it is.
        """
        try:
            user_namespaces.check_owners(self.driver, instance)
        except nova_exception.ComputeResourcesUnavailable as err:
            raise nova_exception.InstanceFaultRollback(err) from err
        is_rt = servers.is_rt_move(instance, flavor)
        if is_rt:
            self._rt_requests.check_arrived(instance)
            hints = self._get_scheduler_hints(filter_properties, request_spec)
            self._rt_requests.note_move(instance, flavor, hints)
        try:
            with revert.on_error() as steps:
                # The claim removes the keys in its own copy of the server.
                steps.add(servers.forget_move, instance)
                return super()._prep_resize(
                    context, image, instance, flavor, filter_properties, node,
                    migration, request_spec, clean_shutdown,
                )  # fmt: skip
        except nova_exception.ComputeResourcesUnavailable as err:
            if not is_rt or (filter_properties or {}).get('retry'):
                raise
            raise nova_exception.InstanceFaultRollback(err) from err

    def _reboot_instance(
        self, context: Any, instance: Any, block_device_info: Any,
        reboot_type: Any,
    ) -> Any:  # fmt: skip
        """End a move to this host that was interrupted."""
        interrupted.end_arrival(self, context, instance)
        return super()._reboot_instance(
            context, instance, block_device_info, reboot_type
        )

    def _power_on(self, context: Any, instance: Any) -> Any:
        """End a move to this host that was interrupted."""
        interrupted.end_arrival(self, context, instance)
        return super()._power_on(context, instance)

    def _resume_guests_state(
        self, context: Any, instance: Any, net_info: Any
    ) -> Any:
        """End a move to this host that was interrupted.

        A server that is being reverted is started by the revert, which also
        restores its disk.
        """
        if instance.task_state == task_states.RESIZE_REVERTING and (
            servers.is_rt_moved(instance)
        ):
            return None
        try:
            interrupted.end_arrival(self, context, instance)
        except Exception:
            # The driver does not start a server that has not arrived.
            LOG.exception('Could not finish interrupted resize',
                          instance=instance)  # fmt: skip
        return super()._resume_guests_state(context, instance, net_info)

    def confirm_resize(self, context, instance, migration):
        """Confirm once, even if the request is repeated."""
        return endings.once(
            endings.is_confirmation_due,
            super().confirm_resize, context, instance, migration,
        )  # fmt: skip

    def revert_resize(self, context, instance, migration, request_spec):
        """Revert once, even if the request is repeated."""
        return endings.once(
            endings.is_revert_due,
            super().revert_resize, context, instance, migration, request_spec,
        )  # fmt: skip

    def finish_revert_resize(self, context, instance, migration, request_spec):
        """Finish a revert once, even if the request is repeated."""
        return endings.once(
            endings.is_return_due,
            super().finish_revert_resize, context, instance, migration,
            request_spec,
        )  # fmt: skip

    def _resize_instance(
        self, context: Any, instance: Any, image: Any, migration: Any,
        flavor: Any, clean_shutdown: Any, request_spec: Any,
    ) -> Any:  # fmt: skip
        """Refuse to move a server to a host without reservations.

        Remove the keys of the move if the server cannot leave.
        """
        with revert.on_error() as steps:
            steps.add(self._rt_forget_here, instance)
            with (
                self._error_out_instance_on_exception(
                    context, instance, instance_state=instance.vm_state
                ),
                manager.errors_out_migration_ctxt(migration),
            ):
                self._rt_requests.check_leaving(
                    instance,
                    destinations.find_reason(
                        context, instance, flavor, migration
                    ),
                )
            return super()._resize_instance(
                context, instance, image, migration, flavor, clean_shutdown,
                request_spec,
            )  # fmt: skip

    def _rt_forget_here(self, instance: Any) -> None:
        """Remove the keys of a move that could not leave this host."""
        if instance.host == self.host and servers.forget_move(instance):
            instance.save()

    def _prep_snapshot_based_resize_at_source(
        self, ctxt: Any, instance: Any, migration: Any, snapshot_id: Any = None
    ) -> Any:
        """Refuse moves of real-time servers to another cell."""
        if servers.is_rt(instance):
            self._rt_requests.check_leaving(instance, faults.CANNOT_LEAVE_CELL)
        return super()._prep_snapshot_based_resize_at_source(
            ctxt, instance, migration, snapshot_id
        )

    def _do_rebuild_instance_with_claim(
        self, context: Any, instance: Any, orig_image_ref: Any,
        image_meta: Any, injected_files: Any, new_pass: Any,
        orig_sys_metadata: Any, bdms: Any, evacuate: bool,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """End a move to this host that was interrupted, or evacuate.

        After a failed evacuation the keys of the move are removed: the claim
        does so in its own copy of the server only.
        """
        if not evacuate:
            interrupted.end_arrival(self, context, instance)
        with revert.on_error() as steps:
            if evacuate:
                steps.add(servers.forget_move, instance)
            return super()._do_rebuild_instance_with_claim(
                context, instance, orig_image_ref, image_meta, injected_files,
                new_pass, orig_sys_metadata, bdms, evacuate, *args, **kwargs,
            )  # fmt: skip

    def _finish_resize(
        self, context: Any, instance: Any, migration: Any, disk_info: Any,
        image_meta: Any, bdms: Any, request_spec: Any,
    ) -> Any:  # fmt: skip
        """Switch the server to its new reservation.

        Nova saves it together with the new flavor. If the server cannot be
        started, it stays here with the new allocation: it therefore keeps the
        new flavor, and not the old one as in Nova.
        """
        self.rt.rt_restore_note(instance)
        moved = servers.switch(instance, migration.is_resize)
        with revert.on_error() as steps:
            if moved:
                steps.add(servers.forget_move, instance)
                if migration.is_resize:
                    steps.add(
                        self._set_instance_info, instance, instance.new_flavor
                    )
            return super()._finish_resize(
                context, instance, migration, disk_info, image_meta, bdms,
                request_spec,
            )  # fmt: skip

    def _send_finish_resize_notifications(
        self, context: Any, instance: Any, bdms: Any, network_info: Any,
        phase: Any,
    ) -> Any:  # fmt: skip
        """Make the new reservation the current one in memory.

        The first notification is sent after the server was saved with it, and
        before it is started.
        """
        if phase == fields.NotificationPhase.START and (
            servers.has_switched(instance)
        ):
            self.rt.rt_switch(instance)
        return super()._send_finish_resize_notifications(
            context, instance, bdms, network_info, phase
        )

    def _revert_instance_flavor_host_node(
        self, instance: Any, migration: Any
    ) -> Any:
        """Save the old reservation together with the old flavor and host."""
        moved = servers.switch_back(instance)
        result = super()._revert_instance_flavor_host_node(instance, migration)
        if moved:
            self.rt.rt_return(instance)
        return result

    def _delete_stashed_flavor_info(self, instance: Any) -> None:
        """Remove the flavors of a move, unless the next one has begun.

        The server has no task since it was saved as ACTIVE, so its next move
        may have begun. Nova would overwrite the flavors and keys of that move
        with the values that it has read before.
        """
        if record.KEY not in instance.system_metadata:
            super()._delete_stashed_flavor_info(instance)
            return
        instance.refresh()
        if instance.task_state in task_states.resizing_states:
            return
        instance.old_flavor = instance.new_flavor = None
        instance.system_metadata.pop('old_vm_state', None)
        with contextlib.suppress(nova_exception.UnexpectedTaskStateError):
            instance.save(expected_task_state=[instance.task_state])

    # Holding reservations

    @periodic_task.periodic_task(spacing=CONF.nova_rt.verify_interval or -1)
    def _verify_reservations(self, context: Any) -> None:
        """Verify the reservation of every running container."""
        self.driver.running.verify_all()
        self._rt_counters.note_verified()

    @periodic_task.periodic_task(spacing=CONF.instance_delete_interval)
    def _remove_remnants(self, context: Any) -> None:
        """Remove disks and domains left by moves of deleted servers."""
        orphaned_instances.remove(self, context)

    @periodic_task.periodic_task(spacing=60)
    def _settle_changes(self, context: Any) -> None:
        """End the changes of reservations that could not be ended before."""
        self.rt_changes.settle_all(context)

    @periodic_task.periodic_task(spacing=adapted_records.INTERVAL_S)
    def _record_adapted(self, context: Any) -> None:
        """Save the reservations that have followed their load."""
        if self.rt_feedback is not None:
            self._rt_adapted.report_all(context, self.rt_feedback.loops)

    # Refused actions

    def _get_rescue_image(self, context: Any, instance: Any,
                          rescue_image_ref: Any = None) -> Any:  # fmt: skip
        """Refuse a rescue, in its last step before the server is stopped."""
        if servers.is_rt(instance):
            raise nova_exception.InstanceNotRescuable(
                instance_id=instance.uuid,
                reason=self._rt_requests.refuse(
                    instance,
                    events.Action.RESCUE,
                    'real-time servers are containers, which have no second '
                    'root disk',
                ),
            )
        return super()._get_rescue_image(context, instance, rescue_image_ref)
