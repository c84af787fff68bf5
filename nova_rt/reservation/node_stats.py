# SPDX-License-Identifier: Apache-2.0
"""The free bandwidth of a compute node, published as text.

nova-rt-compute writes it into the statistics of the compute node as strings;
nova-scheduler reads it. Every request of the cloud reads these statistics,
real-time or not: the text is kept short.
"""

from collections.abc import Mapping
import functools
import json

from nova_rt import exception
from nova_rt.reservation import admission, cpulist
from nova_rt.reservation.admission import Placement
from nova_rt.reservation.reservation import Reservation

#: JSON object: list of CPUs -> ppm that is free on each, ``{"0-3,7":950000}``.
FREE = 'rt_free'

#: ppm that is free on the host; only where the kernel sums over the host.
HOST_FREE = 'rt_host_free'

#: JSON object: NUMA node -> list of its CPUs among these,
#: ``{"0":"0-3","1":"7"}``; only where they are on several nodes.
NODES = 'rt_nodes'

#: The compute service's choice of CPUs; only where it is not worst fit.
PLACEMENT = 'rt_placement'

#: Microseconds that each reservation takes of each of its CPUs beside its
#: runtime, in every period; only where it is not 0.
OVERHEAD = 'rt_overhead_us'

#: The pool of spare bandwidth on each CPU, ``<runtime_us>/<period_us>``; only
#: where there is one.
SPARE = 'rt_spare'

#: All of these. A missing key means the default of a compute service that does
#: not know it: one node, worst fit, no overhead, no pool.
KEYS = (FREE, HOST_FREE, NODES, PLACEMENT, OVERHEAD, SPARE)


def render(free: admission.Capacity) -> dict[str, str]:
    """Render the free bandwidth as statistics."""
    groups: dict[int, list[int]] = {}
    for cpu, ppm in free.cpus.items():
        groups.setdefault(ppm, []).append(cpu)
    stats = {
        FREE: json.dumps(
            {cpulist.render(cpus): ppm for ppm, cpus in groups.items()},
            separators=(',', ':'),
        )
    }
    if free.host_ppm is not None:
        stats[HOST_FREE] = str(free.host_ppm)
    if free.nodes:
        stats[NODES] = json.dumps(
            {node: cpulist.render(cpus) for node, cpus in free.nodes.items()},
            separators=(',', ':'),
        )
    if free.placement is not Placement.WORST_FIT:
        stats[PLACEMENT] = free.placement.value
    if free.overhead_us:
        stats[OVERHEAD] = str(free.overhead_us)
    if free.spare is not None:
        stats[SPARE] = str(free.spare)
    return stats


def parse(stats: Mapping[str, str | None]) -> admission.Capacity | None:
    """Parse the result of :func:`render`.

    :returns: None where nothing is published
    :raises ValueError: if it has another format
    """
    text = stats.get(FREE)
    if text is None:
        return None
    groups = json.loads(text)
    if not isinstance(groups, dict):
        raise ValueError(f'{FREE} is not an object')
    if not set(map(type, groups.values())) <= {int}:
        raise ValueError(f'{FREE} has a value that is not a whole number')
    cpus = {
        cpu: ppm for key, ppm in groups.items() for cpu in cpulist.parse(key)
    }
    host = stats.get(HOST_FREE)
    nodes = stats.get(NODES)
    spare = stats.get(SPARE)
    free = admission.Capacity(
        cpus,
        None if host is None else int(host),
        {} if nodes is None else _parse_nodes(nodes),
        _parse_placement(stats.get(PLACEMENT)),
        int(stats.get(OVERHEAD) or 0),
        None if spare is None else _parse_spare(spare),
    )
    if nodes and not set().union(*free.nodes.values()) <= cpus.keys():
        raise ValueError(f'{NODES} holds CPUs that {FREE} does not')
    return free


# Free bandwidth changes with each server, nodes do not, and hosts are alike.
@functools.lru_cache(maxsize=256)
def _parse_nodes(text: str) -> Mapping[int, tuple[int, ...]]:
    """Parse the NUMA nodes.

    :raises ValueError: if these are not nodes with distinct CPUs
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f'{NODES} is not an object')
    if not set(map(type, found.values())) <= {str}:
        raise ValueError(f'{NODES} has a value that is not a list of CPUs')
    nodes = {int(node): cpulist.parse(cpus) for node, cpus in found.items()}
    if len(set().union(*nodes.values())) < sum(map(len, nodes.values())):
        raise ValueError(f'{NODES} has a CPU on two nodes')
    return nodes


def _parse_spare(text: str) -> Reservation:
    """Parse the pool.

    :raises ValueError: if it is none
    """
    try:
        return Reservation.parse(text)
    except exception.InvalidReservation as err:
        raise ValueError(f'{SPARE}: {err}') from err


def _parse_placement(text: str | None) -> Placement:
    """Parse the heuristic; an unknown one of a newer version is worst fit.

    It does not decide whether one server fits. For several at once, the
    compute service has the last word.
    """
    return next(
        (each for each in Placement if each == text), Placement.WORST_FIT
    )
