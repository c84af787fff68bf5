# SPDX-License-Identifier: Apache-2.0
"""The host filter: does a real-time server fit on a host's CPUs?

Placement knows the sum of a host; whether single CPUs have enough left is
decided here, from the publication of the compute node, and in the end by the
claim on the compute node.

Importing this module, as nova-scheduler does for a filter that is enabled,
also registers the request filter that asks Placement for the bandwidth.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from nova.scheduler import filters, utils
from oslo_log import log as logging

from nova_rt import exception
from nova_rt.reservation import admission
from nova_rt.reservation.request import Request
from nova_rt.scheduler import host_stats, request_filter, request_specs

LOG = logging.getLogger(__name__)

request_filter.register()


class RTBandwidthFilter(filters.BaseHostFilter):
    """Pass the hosts with CPUs that have room for the reservation."""

    # A rebuild keeps the claim it has.
    RUN_ON_REBUILD = False

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> Iterable[Any]:
        """Choose the hosts that pass; the request is read once for all.

        :param filter_obj_list: nova.scheduler.host_manager.HostState objects
        :param spec_obj: nova.objects.RequestSpec
        :returns: those of them that have room for the reservation
        """
        if utils.request_is_rebuild(spec_obj):
            return filter_obj_list
        try:
            asked = request_specs.parse(spec_obj)
        except exception.InvalidRequest as err:
            # The request filter refuses it first; if it ever does not, no
            # host is the safe answer.
            LOG.warning(
                'No host passes: %s', err, instance_uuid=spec_obj.instance_uuid
            )
            return []
        if asked is None:
            return filter_obj_list
        return self._fitting(filter_obj_list, spec_obj, asked)

    def _fitting(
        self, hosts: Iterable[Any], spec_obj: Any, asked: Request
    ) -> Iterator[Any]:
        for host in hosts:
            try:
                refusal = _refusal(host, asked)
            except ValueError as err:
                LOG.warning(
                    '%(host)s, %(node)s publishes free RT bandwidth that '
                    'cannot be read: %(error)s',
                    {'host': host.host, 'node': host.nodename, 'error': err},
                    instance_uuid=spec_obj.instance_uuid,
                )
                continue
            if refusal is None:
                yield host
            else:
                LOG.debug(
                    '%(host)s, %(node)s is refused. %(refusal)s',
                    {
                        'host': host.host,
                        'node': host.nodename,
                        'refusal': refusal,
                    },
                    instance_uuid=spec_obj.instance_uuid,
                )


def _refusal(
    host: Any, asked: Request
) -> exception.InsufficientBandwidth | str | None:
    """Return why the host cannot take the server, or None where it can.

    :raises ValueError: if its publication cannot be read
    """
    free = host_stats.parse_free(host)
    if free is None:
        return (
            f'It publishes no free RT bandwidth; asked '
            f'{asked.reservation.ppm} ppm on each of {asked.vcpus} CPU(s)'
        )
    try:
        placed = host_stats.count_placed(host)
        admission.place_many(free, asked, placed + 1)
    except exception.InsufficientBandwidth as err:
        return err
    return None
