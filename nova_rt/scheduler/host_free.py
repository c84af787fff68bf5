# SPDX-License-Identifier: Apache-2.0
"""Reading what a compute node publishes about its free bandwidth.

nova-rt-compute writes it into the statistics of the compute node, where all
values are strings; see :mod:`nova_rt.compute`.
"""

import json
from typing import Any

from nova_rt import admission

#: JSON object, CPU number -> ppm that is free on it.
FREE = 'rt_free'

#: ppm that is free on the host; only where the kernel sums over the host.
HOST_FREE = 'rt_host_free'

# UUID of a compute node -> what it published last, and that read. Most hosts
# have not changed since the last request, and reading costs more than all
# that is done with it. Holds one entry for each host there ever was.
_read: dict[str, tuple[str, str | None, admission.Capacity]] = {}


def of(host_state: Any) -> admission.Capacity | None:
    """The free bandwidth of a host, as it was published.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: None where the host publishes none
    :raises ValueError: if what it publishes cannot be read
    """
    # A node that has not reported yet has no statistics at all.
    stats = getattr(host_state, 'stats', {})
    cpus, host = stats.get(FREE), stats.get(HOST_FREE)
    if cpus is None:
        return None
    known = _read.get(host_state.uuid)
    if known is not None and known[0] == cpus and known[1] == host:
        return known[2]
    free = read(cpus, host)
    _read[host_state.uuid] = (cpus, host, free)
    return free


def read(cpus: str, host: str | None) -> admission.Capacity:
    """Read the texts of ``rt_free`` and, if there is one, ``rt_host_free``.

    :raises ValueError: if they cannot be read
    """
    published = json.loads(cpus)
    if not isinstance(published, dict):
        raise ValueError(f'{FREE} is not an object')
    if not set(map(type, published.values())) <= {int}:
        raise ValueError(f'{FREE} holds what is not a whole number')
    return admission.Capacity(
        {int(cpu): ppm for cpu, ppm in published.items()},
        None if host is None else int(host),
    )


def placed(host_state: Any) -> int:
    """Servers of this request that have been put on the host so far.

    The scheduler counts them in the host's state, while the statistics stay
    as the compute node wrote them (nova/scheduler/host_manager.py,
    HostState.consume_from_request()).

    :param host_state: nova.scheduler.host_manager.HostState
    """
    before = int(host_state.stats.get('num_instances', 0))
    return max(0, int(host_state.num_instances) - before)
