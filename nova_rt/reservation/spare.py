# SPDX-License-Identifier: Apache-2.0
"""Pools of spare bandwidth: the demand of a server, and what fulfils it.

A host may have a pool (Qs, Ps) on each CPU, shared by the servers that
subscribe to it. It serves their urgent tasks while their own budgets are used
up. Source: T. Cucinotta, F. Checconi, D. Giani, *Improving Responsiveness for
Virtualized Networking Under Intensive Computing Workloads*, RTLWS 2011.
"""

from collections.abc import Mapping
from typing import Any

from nova_rt import exception
from nova_rt.reservation import extra_specs
from nova_rt.reservation.reservation import Reservation


class NoPool(exception.WeakerPromise):
    """The host has lost the pool of spare bandwidth that a server uses."""

    user_message = 'the host has no spare bandwidth for the server any more'


def read_priority(values: Mapping[str, Any]) -> dict[str, int]:
    """Read the least priority of the tasks that use a pool.

    :param values: of all extra specs
    :returns: that of the flavor, or the first above that of its other tasks;
        nothing if the flavor uses no pool
    :raises InvalidRequest: if the flavor has one of both extra specs without
        need, or no priority is left
    """
    given, priority = values['spare_priority'], values['priority']
    if values['spare'] is None:
        if given is not None:
            raise exception.InvalidRequest(
                f'{extra_specs.SPARE_PRIORITY} needs {extra_specs.SPARE}'
            )
        return {}
    if given is None and priority == extra_specs.MAX_PRIORITY:
        raise exception.InvalidRequest(
            f'{extra_specs.SPARE} needs {extra_specs.SPARE_PRIORITY}: no '
            f'priority is above the {priority} of {extra_specs.PRIORITY}'
        )
    return {'spare_priority': priority + 1 if given is None else given}


def covers(pool: Reservation | None, wish: Reservation | None) -> bool:
    """Tell whether a pool fulfils the demand of a server.

    One that is at rest serves C = ``wish.runtime_us`` within Ps ceil(C/Qs),
    which must not be longer than ``wish.period_us``. A bandwidth as large does
    not suffice: 210/700 serves 300 within 1400, not within 1000.

    :param pool: of the host; None if it has none
    :param wish: of the server; None if it uses none
    :returns: whether that much is served within the period
    """
    if wish is None:
        return True
    if pool is None:
        return False
    periods = wish.period_us // pool.period_us
    return pool.runtime_us * periods >= wish.runtime_us


def describe_missing(pool: Reservation | None, wish: Reservation) -> str:
    """Describe the pool that a server needs, and that of a host.

    :returns: a clause with the numbers
    """
    has = 'none' if pool is None else f'{pool} us'
    return (
        f'{extra_specs.SPARE}={wish} needs a pool of spare bandwidth that '
        f'serves {wish.runtime_us} us within {wish.period_us} us, and this '
        f'host has {has}'
    )
