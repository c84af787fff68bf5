# SPDX-License-Identifier: Apache-2.0
"""The demand of a real-time server on Placement, spelt as extra specs.

The request filter asks for it whatever the flavor says. A flavor that carries
it by itself asks for the same where that filter is missing, and a compute
service without reservations is then not even asked.
"""

from collections.abc import Mapping
import re

from nova_rt import exception
from nova_rt.reservation.extra_specs import (
    RESOURCE_CLASS,
    TRAIT_GUARANTEE,
    TRAIT_LIMIT,
    Enforcement,
)
from nova_rt.reservation.request import Request

_TRAIT = {
    Enforcement.GUARANTEE: TRAIT_GUARANTEE,
    # A host that guarantees has this trait as well.
    Enforcement.LIMIT: TRAIT_LIMIT,
}

#: Extra spec of the bandwidth on all CPUs together, in ppm of a CPU.
BANDWIDTH_KEY = f'resources:{RESOURCE_CLASS}'
# Its CPUs are not those of plain servers: neither the number of CPUs in
# [compute] cpu_shared_set nor their allocation ratio bounds it.
_VCPU_KEY = 'resources:VCPU'
_PCPU_KEY = 'resources:PCPU'
_TRAIT_KEYS = {f'trait:{trait}' for trait in _TRAIT.values()}
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
    """Return what a flavor should carry for this request, beside ``rt:`` keys.

    :returns: extra spec -> value
    """
    return {
        BANDWIDTH_KEY: str(request.total_ppm),
        _VCPU_KEY: '0',
        f'trait:{_TRAIT[request.enforcement]}': 'required',
    }


def replace(specs: Mapping[str, str], request: Request) -> dict[str, str]:
    """Make extra specs ask for what the request needs and nothing else of it.

    A trait of the other enforcement goes: with it, a flavor that limits
    would be kept from hosts that limit.

    :returns: all extra specs
    """
    others = {
        key: value for key, value in specs.items() if key not in _REPLACED
    }
    return others | ask(request)


def surplus(request: Request) -> list[str]:
    """List what a flavor with this request must not carry.

    :returns: names of extra specs
    """
    return sorted(_REPLACED - ask(request).keys())


def differences(
    specs: Mapping[str, str], request: Request
) -> tuple[dict[str, str], list[str]]:
    """Find what has to change in a flavor for it to carry what it asks for.

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
    """See that a real-time flavor asks for no CPUs beside its bandwidth.

    And for nothing that no host of containers has.

    :param specs: all its extra specs
    :raises InvalidRequest: if it does, in a way that is not simply replaced
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
    """See that nothing asks for dedicated CPUs beside the bandwidth.

    :param source: where the policy stands, for the message
    :param policy: as Nova names it; None if there is none
    :raises InvalidRequest: if it takes CPUs of its own
    """
    if policy in _OWN_CPUS:
        raise exception.InvalidRequest(
            f'{source}={policy} asks for dedicated CPUs, which a real-time '
            'server does not have: its reservation shares CPUs with others'
        )
