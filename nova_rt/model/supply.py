# SPDX-License-Identifier: Apache-2.0
"""Least CPU time that a reservation (Q, P) supplies, in integers.

All of it is about one CPU and a hard CBS with the wake-up rule of Linux, whose
period begins when work comes to it. The periodic resource of Shin and Lee
(Periodic resource model for compositional real-time guarantees, RTSS 2003) has
fixed periods, and its budget may be over just when work comes: it gives the
same P - Q later, so its longest gap is 2 (P - Q).
"""

from nova_rt.model import inputs
from nova_rt.reservation.reservation import Reservation

NS_PER_US = 1000
NS_PER_S = 1_000_000_000


def gap_us(reservation: Reservation) -> int:
    """The largest lateness of a response against a fluid CPU.

    P - Q, beside any neighbours that are admitted; nothing for a container
    that is alone on its CPU. Proved, and reached: see the manual's page on
    the formulas. It is no bound on a wait for the CPU. A task that never
    sleeps can wait for 2 (P - Q), having had a budget before it was due.

    :returns: microseconds
    """
    return reservation.period_us - reservation.runtime_us


def supplied_ns(time_ns: int, reservation: Reservation) -> int:
    """CPU time that a container has had at least since its period began.

    k Q + max(0, t - k P - (P - Q)), k = floor(t/P): earliest deadline first
    ends each budget by its deadline, and no earlier where neighbours ask for
    the rest. Valid from a wake-up that begins a period to the next one that
    does, also if the server sleeps in between and keeps budget and deadline.
    Proved, and reached.

    :param time_ns: since the wake-up
    :returns: nanoseconds
    :raises InvalidQuantity: unless the length is an int of at least 0
    """
    inputs.whole('the time in ns', time_ns, 0)
    runtime = reservation.runtime_us * NS_PER_US
    period = reservation.period_us * NS_PER_US
    periods, into = divmod(time_ns, period)
    return periods * runtime + max(0, into - (period - runtime))


def time_for_ns(work_ns: int, reservation: Reservation) -> int:
    """The inverse of :func:`supplied_ns`: the latest completion of work.

    (P - Q) ceil(C/Q) + C, which is at most C/u + (P - Q).

    :param work_ns: CPU time
    :returns: nanoseconds
    :raises InvalidQuantity: unless the work is an int of at least 0
    """
    inputs.whole('the work in ns', work_ns, 0)
    runtime = reservation.runtime_us * NS_PER_US
    period = reservation.period_us * NS_PER_US
    return (period - runtime) * -(-work_ns // runtime) + work_ns
