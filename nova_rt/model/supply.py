# SPDX-License-Identifier: Apache-2.0
"""What a reservation (Q, P) gives at least, in integers."""

from nova_rt.model import inputs
from nova_rt.reservation import Reservation

NS_PER_US = 1000
NS_PER_S = 1_000_000_000


def activity_us(cost_us: int, reservation: Reservation) -> int:
    """When one activity is done that starts with a full budget.

    ceil(C/Q) P: the CBS gives Q in each period. Source: EDGE 2019, section
    III-B. Valid for an activity that is alone in its container and becomes
    ready when the last one is long done: the server then begins a period.

    :param cost_us: C, its CPU time
    :returns: microseconds from its start, at most
    :raises InvalidQuantity: unless the cost is a positive int
    """
    inputs.whole('the CPU time in us', cost_us)
    return -(-cost_us // reservation.runtime_us) * reservation.period_us


def gap_us(reservation: Reservation, alone: bool = False) -> int:
    """The longest that a task of the container can wait for the CPU.

    2 (P - Q): the budget at the very beginning of one period and at the very
    end of the next. P - Q where nothing else has a reservation on the CPU.
    Source: Shin and Lee, Periodic resource model for compositional real-time
    guarantees, RTSS 2003.

    :param alone: nothing else reserves on this CPU
    :returns: microseconds
    """
    gap = reservation.period_us - reservation.runtime_us
    return gap if alone else 2 * gap


def supplied_ns(time_ns: int, reservation: Reservation) -> int:
    """The supply bound function: CPU time in any interval, at least.

    sbf(t) = k Q + max(0, t' - k P - (P - Q)), t' = t - (P - Q),
    k = floor(t'/P). Source: Shin and Lee, RTSS 2003, for periodic resources;
    it holds for the hard CBS of SCHED_DEADLINE from any instant at which the
    container has work, also one at which it wakes up.

    :param time_ns: length of the interval
    :returns: nanoseconds
    :raises InvalidQuantity: unless the length is an int of at least 0
    """
    inputs.whole('the time in ns', time_ns, 0)
    runtime = reservation.runtime_us * NS_PER_US
    period = reservation.period_us * NS_PER_US
    rest = time_ns - (period - runtime)
    if rest <= 0:
        return 0
    periods, into = divmod(rest, period)
    return periods * runtime + max(0, into - (period - runtime))


def time_for_ns(work_ns: int, reservation: Reservation) -> int:
    """The inverse of :func:`supplied_ns`: when work is done at the latest.

    (P - Q) (ceil(C/Q) + 1) + C.

    :param work_ns: CPU time
    :returns: nanoseconds
    :raises InvalidQuantity: unless the work is an int of at least 0
    """
    inputs.whole('the work in ns', work_ns, 0)
    if work_ns == 0:
        return 0
    runtime = reservation.runtime_us * NS_PER_US
    period = reservation.period_us * NS_PER_US
    return (period - runtime) * (-(-work_ns // runtime) + 1) + work_ns
