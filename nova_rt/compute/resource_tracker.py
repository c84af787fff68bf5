# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, with CPU bandwidth claimed CPU by CPU.

Placement has admitted the host's sum before; this module chooses the CPUs of a
server's bandwidth, under Nova's own claim lock. Claims and releases follow
Nova's own, step by step, also during moves. Each audit counts the claims
again, and each change publishes the free bandwidth.
"""

from collections.abc import Iterable
from typing import Any

from nova import objects, utils
from nova.compute import resource_tracker, task_states, vm_states
from nova.objects import fields
from oslo_log import log as logging

from nova_rt import exception, faults, revert
from nova_rt.compute import host_claims
from nova_rt.lxc import user_namespaces
from nova_rt.moves import slots
from nova_rt.reservation import record
from nova_rt.tracking import servers
from nova_rt.tracking.claims import Slots

LOG = logging.getLogger(__name__)

#: For methods that change claims and are called without the lock.
locked = utils.synchronized(
    resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True
)


class RTResourceTracker(resource_tracker.ResourceTracker):
    """A ResourceTracker that also claims, releases and publishes bandwidth.

    Claims change only under Nova's COMPUTE_RESOURCE_SEMAPHORE: in methods that
    Nova calls with the lock held, and in our own, which acquire it.
    """

    def __init__(self, host, driver, reportclient=None, reservations=None):
        """Track a host.

        :param reservations: of this host; None for a host without
            reservations, which is tracked as in Nova
        """
        super().__init__(host, driver, reportclient)
        self._rt = host_claims.HostClaims(host, reservations)
        #: Servers that the audit in progress has found on this host.
        self._rt_here: list[Any] = []

    # Claims of servers

    def instance_claim(
        self, context, instance, nodename, allocations, limits=None
    ):  # fmt: skip
        """Refuse a real-time server that Placement has not admitted.

        Refuse a shelved server, too, if its files would belong to nobody here.
        Release the claim if its publication fails.

        :raises ComputeResourcesUnavailable: with the numbers
        """
        if instance.vm_state == vm_states.SHELVED_OFFLOADED:
            user_namespaces.check_owners(self.driver, instance)
        rec = host_claims.read(instance)
        if rec is not None:
            self._rt.check_admitted(
                instance.uuid, rec, (allocations or {}).values()
            )
        with revert.on_error() as steps:
            if self._rt.get(instance.uuid) == Slots():
                steps.add(self._rt_give_back, instance.uuid, nodename)
            return super().instance_claim(
                context, instance, nodename, allocations, limits
            )

    def _set_instance_host_and_node(self, instance: Any, node: Any) -> None:
        """Claim CPUs in the step of instance_claim() that saves the server.

        :raises ComputeResourcesUnavailable: with our numbers; Nova then
            tries another host
        """
        rec = host_claims.read(instance)
        if rec is None:
            super()._set_instance_host_and_node(instance, node)
            return
        with revert.on_error() as steps:
            rec = self._rt.claim(instance.uuid, rec)
            steps.add(self._rt.release, instance.uuid)
            servers.write_record(instance, rec)
            super()._set_instance_host_and_node(instance, node)

    @locked
    def _rt_give_back(self, uuid: str, nodename: str) -> None:
        if self._rt.get(uuid) != Slots():
            self._rt.release(uuid)
            # Without Placement, which may be the cause of the failure.
            self._rt_publish_again(nodename)

    def delete_allocation_for_shelve_offloaded_instance(
        self, context, instance
    ):
        """Remove the CPUs from the record, too.

        Nova saves it in the same write that marks the server as offloaded.
        """
        super().delete_allocation_for_shelve_offloaded_instance(
            context, instance
        )
        servers.forget_cpus(instance)

    def update_usage(self, context, instance, nodename):
        """Release also claims that Nova does not track until its next audit.

        These are the claims of a server after its move.
        """
        super().update_usage(context, instance, nodename)
        self._rt_release_removed(context, instance, nodename)

    @locked
    def _rt_release_removed(
        self, context: Any, instance: Any, nodename: str
    ) -> None:
        if self.disabled(nodename):
            return
        held = self._rt.get(instance.uuid)
        if held != Slots() and _is_removed(instance):
            self._rt.release(instance.uuid)
            self._update(context.elevated(), self.compute_nodes[nodename])

    def _update_usage_from_instance(
        self, context, instance, nodename, is_removed=False
    ):  # fmt: skip
        """Release the claims of a server that is deleted or was not built."""
        if is_removed or _is_removed(instance):
            self._rt.release(instance.uuid)
        super()._update_usage_from_instance(
            context, instance, nodename, is_removed
        )

    # Claims of moves

    def _move_claim(
        self, context, instance, new_flavor, nodename, migration, allocations,
        move_type=None, image_meta=None, limits=None,
    ):  # fmt: skip
        """Claim CPUs for a server that moves to this host.

        Nova then saves the server with the key of the claim, and counts the
        claim from that time on.

        :raises ComputeResourcesUnavailable: with our numbers
        """

        def claim() -> Any:
            return super(RTResourceTracker, self)._move_claim(
                context, instance, new_flavor, nodename, migration,
                allocations, move_type, image_meta, limits,
            )  # fmt: skip

        evacuated = move_type == fields.MigrationType.EVACUATION
        if evacuated:
            user_namespaces.check_owners_after_death(self.driver, instance)
        if not servers.is_rt_move(instance, new_flavor):
            servers.begin_move(instance)
            return claim()
        if self.disabled(nodename):
            return claim()  # Nova refuses.
        self._rt.check_move(instance, migration)
        # The manager has recorded the request; an evacuation changes none.
        reader = servers.read_record if evacuated else servers.read_new
        rec = host_claims.read(instance, reader)
        if rec is not None:
            # During an evacuation the server has allocations on both hosts.
            node = self.compute_nodes[nodename].uuid
            here = (allocations or {}).get(node)
            self._rt.check_admitted(instance.uuid, rec, [here] if here else [])
            # An evacuated server is started before Nova saves its new host.
            rec = self._rt.claim(instance.uuid, rec, beside=not evacuated)
        with revert.on_error() as steps:
            steps.add(self._rt.drop_move, instance)
            servers.note_move(instance, rec)
            return claim()

    def _drop_move_claim(
        self, context, instance, nodename, flavor=None, prefix='new_',
    ):  # fmt: skip
        """Release the slot of a move that is confirmed, reverted or aborted.

        Nova then publishes the free resources. It also stops tracking, until
        the next audit, a server that was resized on its host; our claims stay.
        """
        if self._rt:
            if prefix == 'new_' and servers.has_switched(instance):
                # A revert, on the destination. The source sets the current
                # slot when it has the server back.
                held = self._rt.get(instance.uuid)
                self._rt.hold(instance.uuid, held.beside)
            else:
                # A confirmation, on the source, or an aborted move.
                self._rt.drop_move(instance)
        super()._drop_move_claim(context, instance, nodename, flavor, prefix)

    def rt_restore_note(self, instance: Any) -> None:
        """Restore the lost keys of a server that has moved to this host.

        :param instance: nova.objects.Instance in finish_resize()
        :raises ActionRefused: if this host has no claim for it either
        """
        if not servers.is_note_lost(instance):
            return
        rec = self._rt.find_noted(instance)
        LOG.warning(
            'Restoring reservation from claim: another service has '
            'overwritten the record of the move to this host',
            instance=instance,
        )  # fmt: skip
        servers.note_move(instance, rec)

    @locked
    def rt_switch(self, instance: Any) -> None:
        """Switch the claims of a moved server, saved with its new reservation.

        :param instance: nova.objects.Instance, as it was saved
        """
        if not self._rt:
            return
        uuid = instance.uuid
        migration = self.tracked_migrations.get(uuid)
        beside = None
        if migration is not None and migration.source_compute == self.host:
            beside = host_claims.read(instance, servers.read_beside)
        current = host_claims.read(instance, servers.read_claimed)
        self._rt.hold(uuid, current, beside)

    @locked
    def rt_return(self, instance: Any) -> None:
        """Restore the claim of a reverted server, saved with its old one.

        :param instance: nova.objects.Instance, as it was saved
        """
        if self._rt:
            current = host_claims.read(instance, servers.read_claimed)
            self._rt.hold(instance.uuid, current)

    # Changes of a reservation

    def rt_is_changing(self, uuid: str) -> bool:
        """Tell whether the reservation of a server is being changed."""
        return self._rt.get(uuid).changing is not None

    @locked
    def rt_begin_change(
        self,
        instance: Any,
        rec: record.Record,
        wanted: record.Record,
        generation: int,
    ) -> record.Record:
        """Claim a change, and save its journal with the task of the server.

        :param instance: nova.objects.Instance, without a task
        :param rec: its record
        :param wanted: the same with another reservation
        :returns: the new record, with its CPUs
        :raises NovaRTError: as :meth:`.Reservations.begin_change`
        """
        target = self._rt.require().begin_change(instance.uuid, rec, wanted)
        servers.begin_change(instance, target, generation)
        instance.task_state = task_states.RESIZE_PREP
        # The end publishes it: one request less before the kernel.
        instance.save(expected_task_state=[None])
        return target

    @locked
    def rt_end_change(self, instance: Any, written: bool = True) -> None:
        """Save a server whose change has ended, and release the rest.

        :param written: whether the kernel was given its record
        """
        expected = instance.task_state
        if expected == task_states.RESIZE_PREP:
            instance.task_state = None
        instance.save(expected_task_state=[expected])
        reservations = self._rt.require()
        reservations.hold_record(instance)
        if written:
            reservations.note_actual(instance.uuid, None)
        self._rt_publish_again(instance.node)

    @locked
    def rt_hold_record(self, instance: Any) -> None:
        """Set the claims of a server to its records, as they were saved."""
        self._rt.require().hold_record(instance)
        self._rt_publish_again(instance.node)

    def rt_find_provider(self, context: Any, instance: Any) -> str:
        """Find the UUID of the node of a server, and of its provider.

        :returns: it, from memory if this service has seen it
        """
        node = self.compute_nodes.get(instance.node)
        if node is None:
            # While the service starts.
            node = objects.ComputeNode.get_by_host_and_nodename(
                context, instance.host, instance.node
            )
        uuid: str = node.uuid
        return uuid

    # Feedback

    @locked
    def rt_grow(
        self, uuid: str, wanted: record.Record
    ) -> record.Record | None:
        """Claim more for a server; see :meth:`.Reservations.grow`.

        :returns: None also if the kernel's bandwidth cannot be read
        """
        try:
            return self._rt.require().grow(uuid, wanted)
        except exception.HostNotPrepared:
            return None  # Reported by Reservations.

    @locked
    def rt_save_adapted(self, instance: Any, rec: record.Record) -> None:
        """Save the record that feedback has led to.

        :param instance: nova.objects.Instance, without a task
        """
        servers.write_record(instance, rec)
        instance.save(expected_task_state=[None])
        self._rt.require().note_record(instance.uuid, rec)
        self._rt_publish_again(instance.node)

    @locked
    def rt_release_beyond(
        self, uuid: str, rec: record.Record, publish: bool = False
    ) -> None:
        """Release what a server has claimed beyond its record.

        :param rec: that record, which the kernel holds again
        :param publish: whether that was not free for others, unlike a boost
        """
        self._rt.require().release_beyond(uuid, rec)
        for nodename in list(self.compute_nodes) if publish else ():
            self._rt_publish_again(nodename)

    @locked
    def rt_publish(self, nodename: str) -> None:
        """Publish the free bandwidth of a node; an error is logged."""
        self._rt_publish_again(nodename)

    def _rt_publish_again(self, nodename: str) -> None:
        """Do the same with the lock held.

        Earlier saves stay done. The next call publishes it again.
        """
        try:
            self._rt_save_stats(nodename)
        except Exception as err:
            LOG.warning(
                'Cannot publish free bandwidth: %s', faults.describe(err)
            )

    def _rt_save_stats(self, nodename: str) -> None:
        compute_node = self.compute_nodes.get(nodename)
        # An audit follows when the service has started.
        if compute_node is None:
            return
        unsaved = 'stats' in compute_node.obj_what_changed()
        before = compute_node.stats
        self._rt_publish(compute_node)
        if unsaved or compute_node.stats != before:
            compute_node.save()
        else:
            compute_node.obj_reset_changes(['stats'])

    def finish_evacuation(self, instance, node, migration):
        """Make the claim on this host the only record of the server."""
        if instance.host != self.host:
            servers.arrive(instance)
        super().finish_evacuation(instance, node, migration)

    def delete_allocation_for_evacuated_instance(
        self, context, instance, node, node_type='source'
    ):
        """Keep the allocation of a server after a failed rebuild in place.

        Nova takes every failed rebuild for a failed evacuation to this host,
        and removes the server's allocation. During an evacuation the server's
        host is still the dead one.
        """
        if node_type == 'destination' and instance.host == self.host:
            return
        super().delete_allocation_for_evacuated_instance(
            context, instance, node, node_type=node_type
        )

    # Audits

    def _update_usage_from_instances(
        self, context: Any, instances: Iterable[Any], nodename: str
    ) -> Any:
        """Collect the servers found by an audit for its next step."""
        found = super()._update_usage_from_instances(
            context, instances, nodename
        )
        tracked = self.tracked_instances
        self._rt_here = [each for each in instances if each.uuid in tracked]
        return found

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Rebuild all claims from the servers and moves found by an audit.

        Nova saves and publishes the free resources after that.
        """
        super()._update_usage_from_migrations(context, migrations, nodename)
        if self._rt:
            self._rt.require().count(
                slots.find(
                    self.host,
                    self._rt_here,
                    migrations,
                    slots.find_returning(context, self.host),
                    self._rt.get,
                )
            )
        self._rt_here = []

    def _update(
        self, context: Any, compute_node: Any, startup: bool = False
    ) -> None:
        """Publish the free bandwidth.

        Nova calls this after each change of tracked resources, and saves the
        compute node: the scheduler's data is as fresh as the last claim.
        """
        if self._rt:
            self._rt_publish(compute_node)
        super()._update(context, compute_node, startup)

    def _rt_publish(self, compute_node: Any) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.update(self._rt.render())
        compute_node.stats = stats


def _is_removed(instance: Any) -> bool:
    """Tell whether Nova releases the resources of a server."""
    return bool(
        vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state
        )
    )
