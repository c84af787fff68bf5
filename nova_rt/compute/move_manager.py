# SPDX-License-Identifier: Apache-2.0
"""Nova's compute manager, with the reservations of servers that are moved.

What a server is to have where it goes is noted before the claim, becomes its
record in the step that saves it there, and is forgotten when the move fails.
"""

import contextlib
from typing import Any

from nova import exception as nova_exception
from nova.compute import manager, task_states
from nova.objects import fields
from oslo_log import log as logging

from nova_rt import conf, events, exception, faults, revert
from nova_rt.lxc import user_namespaces
from nova_rt.moves import destinations, endings, interrupted
from nova_rt.reservation import bounds, record, request
from nova_rt.tracking import servers

CONF = manager.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class MoveManager(manager.ComputeManager):
    """ComputeManager that moves servers together with their reservations."""

    def __init__(self, compute_driver=None, *args, **kwargs):
        super().__init__(compute_driver, *args, **kwargs)
        self._rt_bounds = bounds.Bounds.from_options(CONF.nova_rt)

    def _do_prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        request_spec: Any, filter_properties: Any, node: Any,
        clean_shutdown: Any, migration: Any, host_list: Any,
    ) -> Any:  # fmt: skip
        """On the last host there is, keep the reason of a failure."""
        last = host_list is not None and not host_list
        if last and servers.is_rt_move(instance, flavor):
            filter_properties = without_retry(filter_properties)
        return super()._do_prep_resize(
            context, image, instance, flavor, request_spec,
            filter_properties, node, clean_shutdown, migration, host_list,
        )  # fmt: skip

    def _prep_resize(
        self, context: Any, image: Any, instance: Any, flavor: Any,
        filter_properties: Any, node: Any, migration: Any,
        request_spec: Any, clean_shutdown: bool = True,
    ) -> Any:  # fmt: skip
        """Note what the server is to have here, for the claim.

        If no other host is left to try, the server stays as it is.
        """
        try:
            user_namespaces.check_owners(self.driver, instance)
        except nova_exception.ComputeResourcesUnavailable as err:
            raise nova_exception.InstanceFaultRollback(err) from err
        is_rt = servers.is_rt_move(instance, flavor)
        if is_rt:
            self._rt_check_arrived(instance)
            hints = self._get_scheduler_hints(filter_properties, request_spec)
            self._rt_note_move(instance, flavor, hints)
        try:
            with revert.on_error() as steps:
                # The claim forgets it in its own copy of the server.
                steps.add(servers.forget_move, instance)
                return super()._prep_resize(
                    context, image, instance, flavor, filter_properties, node,
                    migration, request_spec, clean_shutdown,
                )  # fmt: skip
        except nova_exception.ComputeResourcesUnavailable as err:
            if not is_rt or (filter_properties or {}).get('retry'):
                raise
            raise nova_exception.InstanceFaultRollback(err) from err

    def _rt_check_arrived(self, instance: Any) -> None:
        """Refuse to move on what has not arrived.

        :raises InstanceFaultRollback: if its last move was not finished
        """
        if servers.has_left(instance):
            self._rt_check_leaving(
                instance,
                'its last move was not finished: start it by a hard reboot '
                'first',
            )

    def _reboot_instance(
        self, context: Any, instance: Any, block_device_info: Any,
        reboot_type: Any,
    ) -> Any:  # fmt: skip
        """End a move that was not finished here."""
        interrupted.end_arrival(self, context, instance)
        return super()._reboot_instance(
            context, instance, block_device_info, reboot_type
        )

    def _power_on(self, context: Any, instance: Any) -> Any:
        """End a move that was not finished here."""
        interrupted.end_arrival(self, context, instance)
        return super()._power_on(context, instance)

    def _resume_guests_state(
        self, context: Any, instance: Any, net_info: Any
    ) -> Any:
        """End a move that was not finished here.

        A server that is being reverted is started by that, with its disk.
        """
        if instance.task_state == task_states.RESIZE_REVERTING and (
            servers.is_rt_moved(instance)
        ):
            return None
        try:
            interrupted.end_arrival(self, context, instance)
        except Exception:
            # The driver does not start one that has not arrived.
            LOG.exception('Could not end its move here', instance=instance)
        return super()._resume_guests_state(context, instance, net_info)

    def confirm_resize(self, context, instance, migration):
        """Do it once, although it may be asked for again."""
        return endings.once(
            endings.is_confirmation_due,
            super().confirm_resize, context, instance, migration,
        )  # fmt: skip

    def revert_resize(self, context, instance, migration, request_spec):
        """Do it once, although it may be asked for again."""
        return endings.once(
            endings.is_revert_due,
            super().revert_resize, context, instance, migration, request_spec,
        )  # fmt: skip

    def finish_revert_resize(self, context, instance, migration, request_spec):
        """Do it once, although it may be asked for again."""
        return endings.once(
            endings.is_return_due,
            super().finish_revert_resize, context, instance, migration,
            request_spec,
        )  # fmt: skip

    def _rt_note_move(
        self, instance: Any, flavor: Any, hints: dict[str, object]
    ) -> None:
        """Put what a moved server is to have into its system_metadata.

        :raises InstanceFaultRollback: if it means nothing here
        """
        try:
            if flavor.id == instance.flavor.id:
                # Its record, and not what is allowed today.
                rec = servers.read_claimed(instance)
                asked = None if rec is None else rec.request
            else:
                asked = self._rt_read_request(flavor, hints)
            servers.note_move(
                instance, None if asked is None else record.Record(asked)
            )
        except exception.NovaRTError as err:
            self._rt_refuse(instance, events.Action.REQUEST, err)
            raise nova_exception.InstanceFaultRollback(
                faults.ActionRefused(reason=faults.tell(err))
            ) from err

    def _resize_instance(
        self, context: Any, instance: Any, image: Any, migration: Any,
        flavor: Any, clean_shutdown: Any, request_spec: Any,
    ) -> Any:  # fmt: skip
        """Refuse to move a server to a host that does not count reservations.

        Forget the move if it cannot leave.
        """
        with revert.on_error() as steps:
            steps.add(self._rt_forget_here, instance)
            with (
                self._error_out_instance_on_exception(
                    context, instance, instance_state=instance.vm_state
                ),
                manager.errors_out_migration_ctxt(migration),
            ):
                self._rt_check_leaving(
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
        """Forget a move that could not leave this host."""
        if instance.host == self.host and servers.forget_move(instance):
            instance.save()

    def _prep_snapshot_based_resize_at_source(
        self, ctxt: Any, instance: Any, migration: Any, snapshot_id: Any = None
    ) -> Any:
        """Refuse what leaves the cell, whoever is to take it."""
        if servers.is_rt(instance):
            self._rt_check_leaving(instance, faults.CANNOT_LEAVE_CELL)
        return super()._prep_snapshot_based_resize_at_source(
            ctxt, instance, migration, snapshot_id
        )

    def _rt_check_leaving(self, instance: Any, reason: str | None) -> None:
        """Refuse a move while the server still runs, its disk in its place.

        :param reason: why it is refused, if it is
        :raises InstanceFaultRollback: if there is a reason
        """
        if reason is not None:
            raise nova_exception.InstanceFaultRollback(
                faults.ActionRefused(
                    reason=self._rt_refuse(
                        instance, events.Action.MOVE, reason
                    )
                )
            )

    def _do_rebuild_instance_with_claim(
        self, context: Any, instance: Any, orig_image_ref: Any,
        image_meta: Any, injected_files: Any, new_pass: Any,
        orig_sys_metadata: Any, bdms: Any, evacuate: bool,
        *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """End a move that was not finished here, or evacuate.

        An evacuation that fails is forgotten: the claim has done so in its
        own copy of the server.
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
        started, it stays here, and Placement holds what the new flavor asks
        for: so the server keeps that, and not the old flavor as in Nova.
        """
        self.rt.rt_restore_note(instance)
        moved = servers.switch(instance)
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
        """Count the new reservation as what the server runs with.

        The first notification comes when the server was saved with it, and
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
        """Forget the flavors of a move, unless the next one has begun.

        The server has no task since it was saved as ACTIVE, so that it may be
        in its next move, whose flavors and notes Nova would overwrite with
        what it has read before.
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

    def _rt_read_request(
        self, flavor: Any, hints: dict[str, object]
    ) -> request.Request | None:
        """Read what a flavor and hints ask for.

        :returns: None for a plain flavor
        :raises InvalidRequest: if it means nothing here
        """
        asked = self._rt_bounds.parse_request(
            flavor.extra_specs,
            flavor.vcpus,
            request.choose_hints(hints, flavor.flavorid),
        )
        if asked is not None:
            user_namespaces.check_request(self.driver, asked)
        return asked

    def _rt_refuse(
        self, instance: Any, action: events.Action, reason: str | Exception
    ) -> str:
        return self.driver.reservations.refuse(instance.uuid, action, reason)


def without_retry(filter_properties: Any) -> dict[str, Any]:
    """Nova then does not send the server on to another host."""
    return {
        key: value
        for key, value in (filter_properties or {}).items()
        if key != 'retry'
    }
