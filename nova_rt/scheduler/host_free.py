# SPDX-License-Identifier: Apache-2.0
"""Reading what a compute node publishes about its free bandwidth.

nova-rt-compute writes it into the statistics of the compute node, where all
values are strings; see :mod:`nova_rt.compute`.
"""

from collections.abc import Mapping
import json
from typing import Any

from nova_rt import admission

#: JSON object, CPU number -> ppm that is free on it.
FREE = 'rt_free'

#: ppm that is free on the host; only where the kernel sums over the host.
HOST_FREE = 'rt_host_free'


def read(stats: Mapping[str, str | None]) -> admission.Capacity | None:
    """The free bandwidth of a host.

    :param stats: ``HostState.stats``
    :returns: None where the host publishes none
    :raises ValueError: if what it publishes cannot be read
    """
    text = stats.get(FREE)
    if text is None:
        return None
    published = json.loads(text)
    if not isinstance(published, dict):
        raise ValueError(f'{FREE} is not an object')
    # Not a loop: this runs once for each host and each request.
    if not set(map(type, published.values())) <= {int}:
        raise ValueError(f'{FREE} holds what is not a whole number')
    cpus = dict(zip(map(int, published), published.values(), strict=True))
    host = stats.get(HOST_FREE)
    return admission.Capacity(cpus, None if host is None else int(host))


def placed(host_state: Any) -> int:
    """Servers of this request that have been put on the host so far.

    The scheduler counts them in the host's state, while the statistics stay
    as the compute node wrote them (nova/scheduler/host_manager.py,
    HostState.consume_from_request()).

    :param host_state: nova.scheduler.host_manager.HostState
    """
    before = int(host_state.stats.get('num_instances', 0))
    return max(0, int(host_state.num_instances) - before)
