# SPDX-License-Identifier: Apache-2.0
"""Answers of a container without budget, from a pool of spare bandwidth.

A pool (Qs, Ps) on a CPU serves the urgent tasks of containers without budget
of their own, in turns of one slot each; the one that was served longest ago is
the next. It is a server like that of a container, so the
rest of its bandwidth when it begins to be used is at most that of a period.

All of it is about one CPU, on which everything that is reserved has been
admitted. After Cucinotta, Checconi and Giani (Improving responsiveness for
virtualized networking under intensive computing workloads, RTLWS 2011). They
have one container and no bound for several.
"""

from nova_rt.model import inputs, supply
from nova_rt.reservation.reservation import Reservation


def demand_ns(work_ns: int, users: int, slot_ns: int) -> int:
    """CPU time of the pool until some work of one of its users is done.

    C + (n - 1) s ceil(C/s): between two turns of one user, each other one
    has at most one.

    :param work_ns: CPU time that the answer needs
    :param users: containers that use the pool on this CPU
    :param slot_ns: longest turn while others wait
    :returns: nanoseconds
    :raises InvalidQuantity: if a number is not an int, or too small
    """
    inputs.whole('the work in ns', work_ns, 1)
    inputs.whole('the number of users', users, 1)
    inputs.whole('the slot in ns', slot_ns, 1)
    return work_ns + (users - 1) * slot_ns * -(-work_ns // slot_ns)


def answer_ns(
    work_ns: int, pool: Reservation, users: int = 1, slot_ns: int | None = None
) -> int:
    """The latest answer, whatever the others do and have done before.

    (Ps - Qs) + Ps ceil(W/Qs), W being :func:`demand_ns`: the pool may have
    been used up just before, and then ends each budget by its deadline.

    :param slot_ns: the kernel's default, a quarter of the runtime, if None
    :returns: nanoseconds
    :raises InvalidQuantity: if a number is not an int, or too small
    """
    runtime = pool.runtime_us * supply.NS_PER_US
    period = pool.period_us * supply.NS_PER_US
    slot = default_slot_ns(pool) if slot_ns is None else slot_ns
    budgets = -(-demand_ns(work_ns, users, slot) // runtime)
    return period - runtime + period * budgets


def answer_from_rest_ns(
    work_ns: int, pool: Reservation, users: int = 1, slot_ns: int | None = None
) -> int:
    """The latest answer if the pool was not used for a period before.

    Ps ceil(W/Qs): its period begins with the work.

    :returns: nanoseconds
    :raises InvalidQuantity: if a number is not an int, or too small
    """
    runtime = pool.runtime_us * supply.NS_PER_US
    period = pool.period_us * supply.NS_PER_US
    return answer_ns(work_ns, pool, users, slot_ns) - (period - runtime)


def default_slot_ns(pool: Reservation) -> int:
    """The slot of a pool for which none is written.

    A quarter of the runtime, but 0.1 ms at least, or all of it if that is
    less.

    :returns: nanoseconds
    """
    runtime = pool.runtime_us * supply.NS_PER_US
    return min(runtime, max(runtime // 4, 100 * supply.NS_PER_US))


def shorter_period_us(reservation: Reservation, within_us: int) -> int:
    """The longest period that answers as soon, with the same bandwidth.

    P' - Q' <= within, Q'/P' = Q/P: to be chosen instead of a pool, if
    the switches of such a period are no matter.

    :param within_us: longest time without budget
    :returns: microseconds; 0 if there is none of a whole microsecond
    :raises InvalidQuantity: unless the time is an int of at least 1
    """
    inputs.whole('the time in us', within_us, 1)
    idle = reservation.period_us - reservation.runtime_us
    if not idle:
        return reservation.period_us
    return min(
        reservation.period_us, within_us * reservation.period_us // idle
    )
