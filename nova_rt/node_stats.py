# SPDX-License-Identifier: Apache-2.0
"""What a compute node publishes about its free bandwidth, as text.

nova-rt-compute writes it into the statistics of the compute node, whose
values are strings; nova-scheduler reads it. Every request of the cloud reads
these statistics, real-time or not: the text is kept short.
"""

from collections.abc import Mapping
import json

from nova_rt import admission, cpulist

#: JSON object: list of CPUs -> ppm that is free on each, ``{"0-3,7":950000}``.
FREE = 'rt_free'

#: ppm that is free on the host; only where the kernel sums over the host.
HOST_FREE = 'rt_host_free'


def render(free: admission.Capacity) -> dict[str, str]:
    """The statistics that say what is free."""
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
    return stats


def parse(stats: Mapping[str, str | None]) -> admission.Capacity | None:
    """What :func:`render` wrote.

    :returns: None where nothing is published
    :raises ValueError: if it is anything else
    """
    text = stats.get(FREE)
    if text is None:
        return None
    groups = json.loads(text)
    if not isinstance(groups, dict):
        raise ValueError(f'{FREE} is not an object')
    if not set(map(type, groups.values())) <= {int}:
        raise ValueError(f'{FREE} holds what is not a whole number')
    cpus = {
        cpu: ppm for key, ppm in groups.items() for cpu in cpulist.parse(key)
    }
    host = stats.get(HOST_FREE)
    return admission.Capacity(cpus, None if host is None else int(host))
