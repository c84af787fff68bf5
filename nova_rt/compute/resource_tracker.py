# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, with CPU bandwidth claimed CPU by CPU.

Placement has admitted the host's sum by then; the CPUs on which a server has
its bandwidth are chosen here, under Nova's own claim lock.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nova import exception as nova_exception
from nova.compute import resource_tracker

from nova_rt import events, exception, extra_specs, node_stats, record
from nova_rt.virt.libvirt import faults, servers
from nova_rt.virt.libvirt.reservations import Reservations


class RTResourceTracker(resource_tracker.ResourceTracker):
    """ResourceTracker that also claims, releases and publishes bandwidth.

    Everything here runs under Nova's COMPUTE_RESOURCE_SEMAPHORE: the methods
    that are extended are those that Nova calls while it holds it.
    """

    def __init__(self, host, driver, reportclient=None, reservations=None):
        """Track a host.

        :param reservations: those of this host; None for a host that has none
            to give and is tracked as Nova does
        """
        super().__init__(host, driver, reportclient)
        self._reservations: Reservations | None = reservations

    def _rt_require(self) -> Reservations:
        """Get the reservations of this host, for a real-time server.

        :returns: the reservations
        :raises ComputeResourcesUnavailable: if it has none to give
        """
        if self._reservations is None:
            raise nova_exception.ComputeResourcesUnavailable(
                reason='this host gives no reservations'
            )
        return self._reservations

    def instance_claim(
        self, context, instance, nodename, allocations, limits=None
    ):  # fmt: skip
        """Refuse a real-time server that Placement has not admitted.

        A scheduler without our filter, or an allocation that was changed by
        hand, asks Placement for nothing: the sum of the host would be wrong.

        :raises ComputeResourcesUnavailable: with the numbers
        """
        rec = self._rt_read(instance)
        if rec is not None:
            self._rt_check_admitted(instance.uuid, rec, allocations or {})
        return super().instance_claim(
            context, instance, nodename, allocations, limits
        )

    @staticmethod
    def _rt_read(instance: Any) -> record.Record | None:
        try:
            return servers.read_record(instance)
        except exception.InvalidRecord as err:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err

    def _rt_check_admitted(
        self, uuid: str, rec: record.Record, allocations: Mapping[str, Any]
    ) -> None:
        held = sum(
            each['resources'].get(extra_specs.RESOURCE_CLASS, 0)
            for each in allocations.values()
        )
        needed = rec.request.total_ppm
        if held != needed:
            err = exception.NotAdmitted(
                f'Placement holds {held} {extra_specs.RESOURCE_CLASS} for '
                f'this server, which needs {needed}: the scheduler that chose '
                'this host does not run RTBandwidthFilter'
            )
            self._rt_require().refuse(uuid, events.Action.CLAIM, err)
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err

    def _set_instance_host_and_node(self, instance: Any, node: Any) -> None:
        """Claim CPUs in the step of instance_claim() that saves the server.

        :raises ComputeResourcesUnavailable: with our numbers; Nova then
            tries another host
        """
        rec = self._rt_read(instance)
        if rec is None:
            super()._set_instance_host_and_node(instance, node)
            return
        held = self._rt_require()
        try:
            rec = held.claim(instance.uuid, rec)
        except (
            exception.ClaimsUnknown,
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err
        try:
            servers.write_record(instance, rec)
            super()._set_instance_host_and_node(instance, node)
        except Exception:
            held.release(instance.uuid)
            raise

    def _move_claim(self, context: Any, instance: Any, new_flavor: Any,
                    *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        """Refuse moves: nothing claims CPUs for them."""
        if servers.is_rt_move(instance, new_flavor):
            raise nova_exception.ComputeResourcesUnavailable(
                reason=self._rt_require().refuse(
                    instance.uuid, events.Action.MOVE, faults.CANNOT_MOVE
                )
            )
        return super()._move_claim(
            context, instance, new_flavor, *args, **kwargs
        )

    def _update_usage_from_instances(
        self, context: Any, instances: Iterable[Any], nodename: str
    ) -> Any:
        """Rebuild all claims from the servers that an audit finds."""
        found = super()._update_usage_from_instances(
            context, instances, nodename
        )
        if self._reservations is not None:
            tracked = self.tracked_instances
            self._reservations.adopt(
                (each for each in instances if each.uuid in tracked),
                audited=True,
            )
        return found

    def _update(
        self, context: Any, compute_node: Any, startup: bool = False
    ) -> None:
        """Release what Nova does not track any more; publish what is free.

        Nova calls this after each change of what it tracks, and saves the
        compute node: the scheduler's picture is as fresh as the last claim.
        """
        if self._reservations is not None:
            self._reservations.release_others(self.tracked_instances)
            self._rt_publish(self._reservations, compute_node)
        super()._update(context, compute_node, startup)

    def _rt_publish(self, rt: Reservations, compute_node: Any) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.update(node_stats.render(rt.free()))
        stats['rt_interface'] = rt.capability.name
        stats['rt_enforcement'] = str(rt.capability.enforcement)
        compute_node.stats = stats
