# SPDX-License-Identifier: Apache-2.0
"""The demand of a real-time server on Placement, as extra specs.

The request filter adds it to every request. A flavor with the same extra specs
makes the demand where that filter is missing, too, and keeps its servers away
from compute services without reservations.
"""

from collections.abc import Mapping
import re

from nova_rt import exception
from nova_rt.reservation.extra_specs import (
    RESOURCE_CLASS,
    TRAIT_GUARANTEE,
    TRAIT_LIMIT,
    TRAIT_SOFT,
    TRAIT_SPARE,
    Enforcement,
)
from nova_rt.reservation.request import Request

#: Promise -> the trait of hosts that keep it.
TRAITS = {
    Enforcement.GUARANTEE: TRAIT_GUARANTEE,
    # A host has the traits of all weaker promises as well.
    Enforcement.SOFT: TRAIT_SOFT,
    Enforcement.LIMIT: TRAIT_LIMIT,
}

#: Extra spec of the bandwidth on all CPUs together, in ppm of a CPU.
BANDWIDTH_KEY = f'resources:{RESOURCE_CLASS}'
# Real-time CPUs are not those of plain servers: neither the number of CPUs in
# [compute] cpu_shared_set nor their allocation ratio bounds it.
_VCPU_KEY = 'resources:VCPU'
_PCPU_KEY = 'resources:PCPU'
#: Extra spec of hosts with a pool of spare bandwidth.
SPARE_KEY = f'trait:{TRAIT_SPARE}'
_TRAIT_KEYS = {SPARE_KEY, *(f'trait:{trait}' for trait in TRAITS.values())}
_REPLACED = {BANDWIDTH_KEY, _VCPU_KEY, *_TRAIT_KEYS}

# nova/scheduler/utils.py, ResourceRequest.XS_KEYPAT: a suffix makes a group
# of its own, whose amounts are added to those without a suffix.
_KEY = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)', re.DOTALL)

# Nova gives NUMA topologies to hosts of QEMU alone, so that no host of
# containers takes a server that asks for one; pages of a size imply one.
_TOPOLOGY = re.compile('hw:(numa_.*|mem_page_size)')

_CPU_POLICY_KEY = 'hw:cpu_policy'
_OWN_CPUS = {'dedicated', 'mixed'}


def ask(request: Request) -> dict[str, str]:
    """Return the extra specs for this request, without its ``rt:`` keys.

    :returns: extra spec -> value
    """
    asked = {
        BANDWIDTH_KEY: str(request.total_ppm),
        _VCPU_KEY: '0',
        f'trait:{TRAITS[request.enforcement]}': 'required',
    }
    if request.spare is not None:
        asked[SPARE_KEY] = 'required'
    return asked


def replace(specs: Mapping[str, str], request: Request) -> dict[str, str]:
    """Replace the demand in extra specs by that of the request.

    The traits of the other promises are removed: with it, a flavor that
    limits would be kept from hosts that limit.

    :returns: all extra specs
    """
    others = {
        key: value for key, value in specs.items() if key not in _REPLACED
    }
    return others | ask(request)


def surplus(request: Request) -> list[str]:
    """List the extra specs that contradict this request.

    :returns: their names
    """
    return sorted(_REPLACED - ask(request).keys())


def differences(
    specs: Mapping[str, str], request: Request
) -> tuple[dict[str, str], list[str]]:
    """Find the changes that make a flavor carry its own demand.

    :returns: extra specs to set, and names of extra specs to remove
    """
    wanted = ask(request)
    return (
        {
            key: value
            for key, value in wanted.items()
            if specs.get(key) != value
        },
        [key for key in surplus(request) if key in specs],
    )


def check(specs: Mapping[str, str]) -> None:
    """Refuse a real-time flavor that also asks for CPUs of its own.

    A flavor that asks for a NUMA topology, which no host of containers has, is
    refused, too.

    :param specs: all its extra specs
    :raises InvalidRequest: if it does, in a way that :func:`replace` leaves
    """
    for key in specs:
        if _TOPOLOGY.fullmatch(key):
            raise exception.InvalidRequest(
                f'no host takes a real-time server with {key}: Nova has no '
                'NUMA topology for containers; remove it. rt:numa=same keeps '
                'the CPUs of a server on one node'
            )
    policy = specs.get(_CPU_POLICY_KEY)
    check_cpu_policy(f'extra spec {_CPU_POLICY_KEY}', policy)
    for key, value in specs.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        prefix, suffix, name = match.groups()
        if name == 'PCPU' and (suffix or value != '0'):
            raise exception.InvalidRequest(
                f'a real-time flavor has no dedicated CPUs: remove {key}'
            )
        if suffix and f'{prefix}:{name}' in _REPLACED:
            raise exception.InvalidRequest(
                f'a real-time flavor cannot ask for {name} in a group of its '
                f'own: remove {key}'
            )


def check_cpu_policy(source: str, policy: str | None) -> None:
    """Refuse a CPU policy that asks for dedicated CPUs.

    :param source: the name of its extra spec or property, for the message
    :param policy: as Nova names it; None if there is none
    :raises InvalidRequest: if it takes CPUs of its own
    """
    if policy in _OWN_CPUS:
        raise exception.InvalidRequest(
            f'{source}={policy} asks for dedicated CPUs, which a real-time '
            'server does not have: its reservation shares CPUs with others'
        )
