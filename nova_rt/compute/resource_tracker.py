# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, which counts and publishes what is claimed.

Claims are made in :mod:`nova_rt.compute.claim_tracker`. Here they are given up
with the server, counted anew at each audit, and what they leave is published.
"""

from collections.abc import Iterable
from typing import Any

from nova.compute import vm_states
from oslo_utils import excutils

from nova_rt.compute import claim_tracker
from nova_rt.moves import slots
from nova_rt.reservation import node_stats
from nova_rt.tracking.claims import Slots
from nova_rt.tracking.reservations import Reservations


class RTResourceTracker(claim_tracker.ClaimTracker):
    """ResourceTracker that also claims, releases and publishes bandwidth."""

    def __init__(self, host, driver, reportclient=None, reservations=None):
        """Track a host; see :class:`.claim_tracker.ClaimTracker`."""
        super().__init__(host, driver, reportclient, reservations)
        #: Servers that the audit in progress has found on this host.
        self._rt_here: list[Any] = []

    def instance_claim(
        self, context, instance, nodename, allocations, limits=None
    ):  # fmt: skip
        """Give up the claim again if it fails later, when it is published."""
        before = None
        if self._reservations is not None:
            before = self._reservations.held.get(instance.uuid)
        try:
            return super().instance_claim(
                context, instance, nodename, allocations, limits
            )
        except Exception:
            with excutils.save_and_reraise_exception():
                if before == Slots():
                    self._rt_give_back(instance.uuid, nodename)

    @claim_tracker.locked
    def _rt_give_back(self, uuid: str, nodename: str) -> None:
        rt = self._reservations
        if rt is not None and rt.held.get(uuid) != Slots():
            rt.release(uuid)
            # Without Placement, which may be what has failed.
            compute_node = self.compute_nodes[nodename]
            self._rt_publish(rt, compute_node)
            compute_node.save()

    def update_usage(self, context, instance, nodename):
        """Release also what Nova does not track until its next audit.

        After a move, that is what the server holds.
        """
        super().update_usage(context, instance, nodename)
        self._rt_release_removed(context, instance, nodename)

    @claim_tracker.locked
    def _rt_release_removed(
        self, context: Any, instance: Any, nodename: str
    ) -> None:
        if self._reservations is None or self.disabled(nodename):
            return
        held = self._reservations.held.get(instance.uuid)
        if held != Slots() and _is_removed(instance):
            self._reservations.release(instance.uuid)
            self._update(context.elevated(), self.compute_nodes[nodename])

    def _update_usage_from_instance(
        self, context, instance, nodename, is_removed=False
    ):  # fmt: skip
        """Release what a server held that is deleted or was not built."""
        if self._reservations is not None and (
            is_removed or _is_removed(instance)
        ):
            self._reservations.release(instance.uuid)
        super()._update_usage_from_instance(
            context, instance, nodename, is_removed
        )

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
        if self._reservations is not None:
            self._reservations.count(
                slots.find(
                    self.host,
                    self._rt_here,
                    migrations,
                    slots.find_returning(context, self.host),
                    self._reservations.held.get,
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
        if self._reservations is not None:
            self._rt_publish(self._reservations, compute_node)
        super()._update(context, compute_node, startup)

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

    def _rt_publish(self, rt: Reservations, compute_node: Any) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.update(node_stats.render(rt.free()))
        stats['rt_interface'] = rt.capability.name
        stats['rt_enforcement'] = str(rt.capability.enforcement)
        compute_node.stats = stats


def _is_removed(instance: Any) -> bool:
    """Whether a server gives up what it holds, in Nova's eyes."""
    return bool(
        vm_states.allow_resource_removal(
            instance.vm_state, instance.task_state
        )
    )
