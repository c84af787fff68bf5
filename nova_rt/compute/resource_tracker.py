# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, with CPU bandwidth claimed CPU by CPU.

Placement has admitted the host's sum by then; here is decided, under Nova's
own claim lock, on which CPUs a server has its bandwidth.
"""

from collections.abc import Iterable
from typing import Any

from nova import exception as nova_exception
from nova.compute import resource_tracker
from oslo_log import log as logging

from nova_rt import admission, cpulist, exception, extra_specs, node_stats
from nova_rt.virt.libvirt import servers

LOG = logging.getLogger(__name__)


class RTResourceTracker(resource_tracker.ResourceTracker):
    """ResourceTracker that also claims, releases and publishes bandwidth.

    Everything here runs under Nova's COMPUTE_RESOURCE_SEMAPHORE: the methods
    that are extended are those that Nova calls while it holds it.
    """

    def __init__(self, host, driver, reportclient=None):
        super().__init__(host, driver, reportclient)
        #: server uuid -> what it holds; rebuilt by every audit
        self.rt_claims: dict[str, admission.Claim] = {}

    def rt_free(self) -> admission.Capacity:
        """What can still be promised on this host, in ppm of a CPU."""
        return self.driver.rt_free(self.rt_claims.values())

    def _set_instance_host_and_node(self, instance: Any, node: Any) -> None:
        """Claim CPUs in the step of instance_claim() that saves the server.

        :raises ComputeResourcesUnavailable: with our numbers; Nova then
            tries another host
        """
        self._rt_claim(instance)
        try:
            super()._set_instance_host_and_node(instance, node)
        except Exception:
            self.rt_claims.pop(instance.uuid, None)
            raise

    def _rt_claim(self, instance: Any) -> None:
        rec = servers.read_record(instance)
        if rec is None:
            return
        request = rec.request
        ppm = request.reservation.ppm
        try:
            cpus = admission.place(self.rt_free(), request.vcpus, ppm)
            rec = rec.claimed_on(cpus)
            servers.write_record(instance, rec)
        except (
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            LOG.warning('Cannot claim: %s', err, instance=instance)
            raise nova_exception.ComputeResourcesUnavailable(
                reason=str(err)
            ) from err
        self.rt_claims[instance.uuid] = rec.claim
        LOG.info(
            'Claimed %d ppm (%s) on CPU %s', ppm, request.reservation,
            cpulist.render(cpus), instance=instance,
        )  # fmt: skip

    def _move_claim(self, context: Any, instance: Any, new_flavor: Any,
                    *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        """Refuse moves: nothing claims CPUs for them."""
        specs = new_flavor.extra_specs
        if servers.is_rt(instance) or extra_specs.is_rt(specs):
            raise nova_exception.ComputeResourcesUnavailable(
                reason='real-time servers cannot be moved or resized'
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
        claims = {}
        for instance in instances:
            if instance.uuid not in self.tracked_instances:
                continue
            try:
                rec = servers.read_claimed(instance)
            except exception.InvalidRecord as err:
                LOG.error('Holds no bandwidth: %s', err, instance=instance)
                continue
            if rec is not None:
                claims[instance.uuid] = rec.claim
        self.rt_claims = claims
        return found

    def _update(
        self, context: Any, compute_node: Any, startup: bool = False
    ) -> None:
        """Release what Nova does not track any more; publish what is free.

        Nova calls this after each change of what it tracks, and saves the
        compute node: the scheduler's picture is as fresh as the last claim.
        """
        for uuid in self.rt_claims.keys() - self.tracked_instances:
            del self.rt_claims[uuid]
        self._rt_publish(compute_node)
        super()._update(context, compute_node, startup)

    def _rt_publish(self, compute_node: Any) -> None:
        free = self.rt_free()
        capability = self.driver.rt_capability
        stats = self.stats[compute_node.hypervisor_hostname]
        stats.update(node_stats.render(free))
        stats['rt_interface'] = capability.name
        stats['rt_enforcement'] = str(capability.enforcement)
        compute_node.stats = stats
