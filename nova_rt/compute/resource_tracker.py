# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, with CPU bandwidth claimed CPU by CPU.

Placement has admitted the host's sum by then; the CPUs on which a server has
its bandwidth are chosen here, under Nova's own claim lock. What is held and
given up follows Nova's own claims, step by step, those of moves as well. It is
counted anew at each audit, and what it leaves is published.
"""

from collections.abc import Iterable
from typing import Any

from nova import utils
from nova.compute import resource_tracker, vm_states
from nova.objects import fields
from oslo_log import log as logging

from nova_rt import revert
from nova_rt.compute import host_claims
from nova_rt.lxc import user_namespaces
from nova_rt.moves import slots
from nova_rt.tracking import servers
from nova_rt.tracking.claims import Slots

LOG = logging.getLogger(__name__)

#: For what changes claims and is not called under the lock anyway.
locked = utils.synchronized(
    resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True
)


class RTResourceTracker(resource_tracker.ResourceTracker):
    """ResourceTracker that also claims, releases and publishes bandwidth.

    What changes claims runs under Nova's COMPUTE_RESOURCE_SEMAPHORE: in
    methods that Nova calls while it holds it, and in our own that take it.
    """

    def __init__(self, host, driver, reportclient=None, reservations=None):
        """Track a host.

        :param reservations: those of this host; None for a host that has none
            to give and is tracked as Nova does
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

        Refuse a shelved server, too, whose files would belong to nobody here.
        Give up the claim again if it fails later, when it is published.

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
            # Without Placement, which may be what has failed.
            compute_node = self.compute_nodes[nodename]
            self._rt_publish(compute_node)
            compute_node.save()

    def delete_allocation_for_shelve_offloaded_instance(
        self, context, instance
    ):
        """Put it into the record, too: Nova saves the server next.

        With the same write that says that it is offloaded.
        """
        super().delete_allocation_for_shelve_offloaded_instance(
            context, instance
        )
        servers.forget_cpus(instance)

    def update_usage(self, context, instance, nodename):
        """Release also what Nova does not track until its next audit.

        After a move, that is what the server holds.
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
        """Release what a server held that is deleted or was not built."""
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
        """Claim CPUs for a server that comes here, beside all others.

        Nova saves the server with the slot that is noted here, and counts the
        claim as of then.

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
        # The manager has noted it; an evacuation changes nothing.
        reader = servers.read_record if evacuated else servers.read_new
        rec = host_claims.read(instance, reader)
        if rec is not None:
            # During an evacuation the server's allocations are those of both
            # hosts.
            node = self.compute_nodes[nodename].uuid
            here = (allocations or {}).get(node)
            self._rt.check_admitted(instance.uuid, rec, [here] if here else [])
            # An evacuated server is started before Nova says that it is here.
            rec = self._rt.claim(instance.uuid, rec, beside=not evacuated)
        with revert.on_error() as steps:
            steps.add(self._rt.drop_move, instance)
            servers.note_move(instance, rec)
            return claim()

    def _drop_move_claim(
        self, context, instance, nodename, flavor=None, prefix='new_',
    ):  # fmt: skip
        """Give up the slot of a move that is confirmed, reverted or aborted.

        Nova then publishes what is free. It also forgets, until the next
        audit, a server that was resized on its host; the claims do not.
        """
        if self._rt:
            if prefix == 'new_' and servers.has_switched(instance):
                # Reverted, seen from the destination. The source says what
                # the server runs with, when it has it.
                held = self._rt.get(instance.uuid)
                self._rt.hold(instance.uuid, held.beside)
            else:
                # Confirmed, seen from the source, or aborted.
                self._rt.drop_move(instance)
        super()._drop_move_claim(context, instance, nodename, flavor, prefix)

    def rt_restore_note(self, instance: Any) -> None:
        """Note again what a server that has come here holds, if that is lost.

        :param instance: nova.objects.Instance in finish_resize()
        :raises ActionRefused: if this host does not know it either
        """
        if not servers.is_note_lost(instance):
            return
        rec = self._rt.find_noted(instance)
        LOG.warning(
            'Another service has overwritten the record of the move to this '
            'host: restoring it from the claim', instance=instance,
        )  # fmt: skip
        servers.note_move(instance, rec)

    @locked
    def rt_switch(self, instance: Any) -> None:
        """A server that was moved here is saved with its new reservation.

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
        """A server that was reverted is saved with its old reservation here.

        :param instance: nova.objects.Instance, as it was saved
        """
        if self._rt:
            current = host_claims.read(instance, servers.read_claimed)
            self._rt.hold(instance.uuid, current)

    def finish_evacuation(self, instance, node, migration):
        """Keep what was claimed here for the server, and that alone."""
        if instance.host != self.host:
            servers.arrive(instance)
        super().finish_evacuation(instance, node, migration)

    def delete_allocation_for_evacuated_instance(
        self, context, instance, node, node_type='source'
    ):
        """Keep the allocation of a server whose rebuild in place has failed.

        Nova takes every failed rebuild for a failed evacuation to this host,
        and removes all that the server holds. During an evacuation the
        server's host is still the dead one.
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
        """Keep the servers that an audit finds for its next step."""
        found = super()._update_usage_from_instances(
            context, instances, nodename
        )
        tracked = self.tracked_instances
        self._rt_here = [each for each in instances if each.uuid in tracked]
        return found

    def _update_usage_from_migrations(self, context, migrations, nodename):
        """Rebuild all claims from the servers and moves that an audit finds.

        Nova saves and publishes what is free after that.
        """
        super()._update_usage_from_migrations(context, migrations, nodename)
        if self._rt:
            self._rt.count(
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
        """Publish what is free.

        Nova calls this after each change of what it tracks, and saves the
        compute node: the scheduler's picture is as fresh as the last claim.
        """
        if self._rt:
            self._rt_publish(compute_node)
        super()._update(context, compute_node, startup)

    def _rt_publish(self, compute_node: Any) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.update(self._rt.render())
        compute_node.stats = stats


def _is_removed(instance: Any) -> bool:
    """Whether a server gives up what it holds, in Nova's eyes."""
    return bool(
        vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state
        )
    )
