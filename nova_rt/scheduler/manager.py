# SPDX-License-Identifier: Apache-2.0
"""The manager of nova-rt-scheduler: Nova's, with refusals that say why.

Nova's scheduler answers "no valid host" and keeps the reasons in its debug
log. For real-time servers this one looks once more at what was free, after
the refusal, and puts the numbers into the server's fault. It decides
nothing, and a request that finds a host costs nothing more.
"""

from collections.abc import Iterator
from typing import Any
import urllib.parse

from keystoneauth1 import exceptions as ks_exc
from nova import exception as nova_exception
import nova.conf
from nova.scheduler import manager, utils
import os_traits
from oslo_log import log as logging
import oslo_messaging as messaging

from nova_rt import admission, bounds, exception, extra_specs
import nova_rt.conf
from nova_rt.scheduler import explain, host_stats, request_specs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

nova_rt.conf.register_opts(CONF)

# The first version that takes forbidden traits.
_PLACEMENT_VERSION = '1.22'


class RTSchedulerManager(manager.SchedulerManager):
    """Nova's SchedulerManager, explaining real-time refusals."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds.Bounds.from_options(CONF.nova_rt)

    @messaging.expected_exceptions(nova_exception.NoValidHost)
    def select_destinations(
        self,
        context: Any,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = manager.SchedulerManager._sentinel,
        instance_uuids: Any = None,
        return_objects: bool = False,
        return_alternates: bool = False,
    ) -> Any:
        """As Nova's; a refusal of a real-time server carries numbers.

        :returns: what Nova's does: selections of hosts
        :raises nova.exception.NoValidHost: wrapped for oslo.messaging
        """
        try:
            return super().select_destinations(
                context,
                request_spec,
                filter_properties,
                spec_obj,
                instance_uuids,
                return_objects,
                return_alternates,
            )
        except messaging.ExpectedException as wrapped:
            refusal = wrapped.exc_info[1]
            # An old conductor sends no RequestSpec object.
            reason = (
                None
                if spec_obj is self._sentinel
                else self._explain(context, spec_obj, instance_uuids)
            )
            if reason is None:
                raise refusal
            LOG.info('%s', reason, instance_uuid=(instance_uuids or [None])[0])
            raise nova_exception.NoValidHost(reason=reason) from refusal

    def _explain(
        self, context: Any, spec_obj: Any, instance_uuids: list[str] | None
    ) -> str | None:
        """What to say instead of Nova's reason; None to leave it."""
        if utils.request_is_rebuild(spec_obj):
            return None
        try:
            asked = request_specs.parse(spec_obj, self._bounds)
        except exception.InvalidRequest:
            # The request filter has said so.
            return None
        if asked is None:
            return None
        guarantee = asked.enforcement is extra_specs.Enforcement.GUARANTEE
        uuids = self._hosts_with(
            context,
            extra_specs.TRAIT_GUARANTEE
            if guarantee
            else extra_specs.TRAIT_LIMIT,
        )
        if uuids is None:
            return None
        hosts = list(self._free(context, spec_obj, uuids)) if uuids else []
        limiting = []
        if not hosts and guarantee:
            limiting = self._hosts_with(context, extra_specs.TRAIT_LIMIT) or []
        return explain.explain(
            asked, len(instance_uuids or ()) or 1, hosts, len(limiting)
        )

    def _hosts_with(self, context: Any, trait: str) -> list[str] | None:
        """UUIDs of the enabled compute nodes that have a trait.

        :returns: None if Placement does not say
        """
        required = f'{trait},!{os_traits.COMPUTE_STATUS_DISABLED}'
        query = urllib.parse.urlencode({'required': required})
        try:
            answer = self.placement_client.get(
                f'/resource_providers?{query}',
                version=_PLACEMENT_VERSION,
                global_request_id=context.global_id,
            )
        except ks_exc.ClientException as err:
            LOG.warning('Placement cannot be asked for hosts: %s', err)
            return None
        if answer.status_code == 400:
            # Placement knows no such trait: no host has ever had it.
            return []
        if answer.status_code != 200:
            LOG.warning(
                'Placement does not list the hosts with %s: %s',
                trait,
                answer.text,
            )
            return None
        return [
            provider['uuid']
            for provider in answer.json()['resource_providers']
        ]

    def _free(
        self, context: Any, spec_obj: Any, uuids: list[str]
    ) -> Iterator[admission.Capacity]:
        """Free bandwidth of the hosts that may take the server."""
        for host in self.host_manager.get_host_states_by_uuids(
            context.elevated(), uuids, spec_obj
        ):
            if not (
                self.servicegroup_api.service_is_up(host.service)
                and _may_take(host, spec_obj)
            ):
                continue
            try:
                free = host_stats.parse_free(host)
            except ValueError:
                # The filter has logged it; the host offers nothing.
                continue
            if free is not None:
                yield free


def _may_take(host: Any, spec_obj: Any) -> bool:
    """Whether the user's choice of a host or a zone leaves this one."""
    if spec_obj.force_hosts and host.host not in spec_obj.force_hosts:
        return False
    destination = spec_obj.requested_destination
    if destination and 'host' in destination:
        return bool(destination.host == host.host)
    zone = spec_obj.availability_zone
    return zone is None or zone == next(
        (
            aggregate.metadata['availability_zone']
            for aggregate in host.aggregates
            if 'availability_zone' in aggregate.metadata
        ),
        CONF.default_availability_zone,
    )
