# SPDX-License-Identifier: Apache-2.0
"""The free bandwidth of a host, seen from the scheduler."""

from typing import Any

from nova_rt.reservation import admission, node_stats

# UUID of a compute node -> what it published last, and that read. Most hosts
# have not changed since the last request, and reading costs more than all
# that is done with it. Holds one entry for each host there ever was.
_parsed: dict[
    str, tuple[tuple[str | None, ...], admission.Capacity | None]
] = {}


def parse_free(host_state: Any) -> admission.Capacity | None:
    """The free bandwidth of a host, as it was published.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: None where the host publishes none
    :raises ValueError: if its publication cannot be read
    """
    # A node that has not reported yet has no statistics at all.
    stats = getattr(host_state, 'stats', {})
    get = stats.get
    if get(node_stats.FREE) is None:
        return None
    texts = tuple(map(get, node_stats.KEYS))
    known = _parsed.get(host_state.uuid)
    if known is not None and known[0] == texts:
        return known[1]
    free = node_stats.parse(stats)
    _parsed[host_state.uuid] = (texts, free)
    return free


def count_placed(host_state: Any) -> int:
    """Count the servers of this request that the host was given so far.

    The scheduler counts them in the host's state, while the statistics stay
    as the compute node wrote them (nova/scheduler/host_manager.py,
    HostState.consume_from_request()).

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: how many
    """
    before = int(host_state.stats.get('num_instances', 0))
    return max(0, int(host_state.num_instances) - before)
