# SPDX-License-Identifier: Apache-2.0
"""The weigher: real-time servers go where most bandwidth is free."""

from typing import Any

import nova.conf
from nova.scheduler import weights
from oslo_log import log as logging

from nova_rt import exception
import nova_rt.conf
from nova_rt.scheduler import host_stats, request_specs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

nova_rt.conf.register_opts(CONF)


class RTBandwidthWeigher(weights.BaseHostWeigher):
    """Weigh hosts by the bandwidth that is free on all their CPUs.

    The same sum as Placement's: it levels load between hosts as worst fit
    levels it between the CPUs of one.
    """

    def __init__(self) -> None:
        self._multiplier: float = CONF.nova_rt.weight_multiplier

    def weight_multiplier(self, host_state: Any) -> float:
        """The operator's multiplier, the same for every host."""
        return self._multiplier

    def weigh_objects(
        self, weighed_obj_list: list[Any], weight_properties: Any
    ) -> list[float]:
        """Weigh hosts.

        :param weighed_obj_list: nova.weights.WeighedObject around HostStates
        :param weight_properties: nova.objects.RequestSpec
        :returns: raw weights: ppm for a real-time server, else 0 for all
        """
        try:
            asked = request_specs.parse(weight_properties)
        except exception.InvalidRequest:
            # Refused elsewhere, with its reason.
            asked = None
        if asked is None:
            return [0.0] * len(weighed_obj_list)
        total_ppm = asked.total_ppm
        return [
            self._weigh_object(weighed.obj, total_ppm)
            for weighed in weighed_obj_list
        ]

    def _weigh_object(self, host_state: Any, total_ppm: int) -> float:
        """Free bandwidth of one host in ppm; 0 where it cannot be read.

        :param total_ppm: of each server of the request
        """
        try:
            free = host_stats.parse_free(host_state)
        except ValueError:
            # Only a forced host gets here: the filter says what is wrong.
            return 0.0
        if free is None:
            return 0.0
        return float(
            free.total_ppm - host_stats.count_placed(host_state) * total_ppm
        )
