# SPDX-License-Identifier: Apache-2.0
"""Words for a real-time server that found no host, with the numbers.

The request comes first: the user of a cloud with modest refusals reads nothing
else.
"""

from collections.abc import Mapping, Sequence

from nova_rt import exception
from nova_rt.reservation import admission, extra_specs
from nova_rt.reservation.request import Request


def explain(
    asked: Request,
    count: int,
    hosts: Sequence[admission.Capacity],
    weaker: Mapping[extra_specs.Enforcement, int] | None = None,
    given_away: bool = False,
) -> exception.NoHost | None:
    """Explain why ``count`` servers of one size do not fit on these hosts.

    :param count: servers in the request
    :param hosts: free bandwidth of each host that may take the servers
    :param weaker: promise -> hosts that were left out because they keep no
        better one
    :param given_away: Placement has not enough left on any of these hosts
    :returns: the reason, or None if they do fit and something other than
        bandwidth must have refused them
    """
    wish = _wish(asked, count)
    user_message = f'{wish}, which is not free'
    if not hosts:
        return exception.NoHost(
            wish + _no_host(asked, weaker or {}), user_message
        )
    room = 0
    refusals = []
    for free in hosts:
        fits, refusal = _room(free, asked, count - room)
        room += fits
        if room >= count:
            if not given_away:
                return None
            return exception.NoHost(
                f'{wish}, room on {len(hosts)} host(s), but Placement has '
                'given it away: to servers just being built, or in leaked '
                'allocations',
                user_message,
            )
        assert refusal is not None  # else it had taken all that were left
        refusals.append(refusal)
    if room:
        return exception.NoHost(
            f'{wish}, room for {room} on {len(hosts)} host(s)', user_message
        )
    best = max(refusals, key=_nearness)
    return exception.NoHost(
        f'{best} (best of {len(hosts)} host(s))', user_message
    )


def _wish(asked: Request, count: int) -> str:
    servers = f'{count} servers with ' if count > 1 else ''
    return (
        f'RT bandwidth: asked {servers}{asked.reservation.ppm} ppm on each '
        f'of {asked.vcpus} CPU(s)'
    )


_KEEPING = {
    extra_specs.Enforcement.GUARANTEE: ' that guarantees it',
    extra_specs.Enforcement.SOFT: ' with a scheduler that keeps it',
    extra_specs.Enforcement.LIMIT: '',
}


def _no_host(
    asked: Request, weaker: Mapping[extra_specs.Enforcement, int]
) -> str:
    text = f', free none; no host{_KEEPING[asked.enforcement]} has any'
    found = {promise: hosts for promise, hosts in weaker.items() if hosts}
    if found:
        # Once for all of them: a fault has 255 characters.
        text += (
            f', {", ".join(f"{found[each]} only {each}" for each in found)}: '
            f'a flavor with {extra_specs.ENFORCEMENT}={" or ".join(found)} '
            'accepts them'
        )
    return text


def _room(
    free: admission.Capacity, asked: Request, count: int
) -> tuple[int, exception.InsufficientBandwidth | None]:
    """Count the servers that fit, and find the reason against the next."""
    for fits in range(count):
        try:
            free = admission.place_many(free, asked, 1)
        except exception.InsufficientBandwidth as err:
            return fits, err
    return count, None


def _nearness(refusal: exception.InsufficientBandwidth) -> tuple[int, int]:
    """Orders refusals: enough CPUs first, then the most that is free."""
    return len(refusal.free_ppm), min(refusal.free_ppm, default=0)
