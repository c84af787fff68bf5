# SPDX-License-Identifier: Apache-2.0
"""Hard CBS as SCHED_DEADLINE has it, in integers; times in ns.

The rules of kernel/sched/deadline.c:

- A server whose work comes while it sleeps keeps its budget r and deadline d
  if d is not over and r / (d - now) <= Q / P. Otherwise r = Q, d = now + P.
- While it has the CPU, r falls. At 0 it waits for d, and is charged for what
  it still has until the switch. At d, d += P and r += Q until r > 0.

edf.py has the rules between servers.
"""

import dataclasses

US = 1000
# A switch may come so much later than it should: the timer that ends a budget
# takes no less than 10 us and is not moved for less than 5; the switch and an
# interrupt are the rest.
LATENCY_NS = 30 * US
# The trace and the kernel's clock read the time at different moments.
CLOCK_NS = 3 * US
# The same for a budget, and for each piece of time that is charged to it. All
# pieces together cannot be off by more than the next end of a budget shows.
BUDGET_NS = 4 * US
PIECE_NS = 700
PIECES_NS = 15 * US
# From the end of a budget to the switch, as a rule: it is charged as well.
SWITCH_NS = 3 * US
# What may be left of a budget at its deadline: the kernel's own time.
LATE_NS = 100 * US
LONG_AGO = -(10**15)
DL_SCALE = 10


@dataclasses.dataclass(frozen=True)
class Server:
    """A reservation, or a deadline task; times in ns.

    :ivar task: a deadline task
    :ivar kind: of its tasks: 'a' always runnable, 'p' periodic, 's' suspending
    """

    task: bool
    kind: str
    runtime: int
    period: int


@dataclasses.dataclass
class State:
    """What a server has.

    :ivar error: by how much the budget may be wrong
    :ivar stale: the kernel may have left it in the queue without tasks
    :ivar excused: it has a budget that it would not have otherwise
    :ivar passed: a task of the server followed another one when the budget
                  ended, and has the CPU without one
    :ivar overran: that lasts longer than the switch to another server
    """

    runtime: int = 0
    error: int = 0
    stale: bool = False
    excused: bool = False
    passed: bool = False
    overran: bool = False
    deadline: int = LONG_AGO
    throttled: bool = False
    queued: bool = False
    order: int = 0
    awake: int = 0


def zero_lag(server: Server, state: State) -> int:
    """From when on a server has had no more than its share."""
    left = abs(state.runtime) * server.period // server.runtime
    return state.deadline + (-left if state.runtime > 0 else left)


def overflows(server: Server, state: State, now: int) -> bool:
    """Whether the budget is too much for the time left."""
    if not server.task:
        return state.runtime > 0 and zero_lag(server, state) < now
    left = (server.period >> DL_SCALE) * (state.runtime >> DL_SCALE)
    right = (state.deadline - now >> DL_SCALE) * (server.runtime >> DL_SCALE)
    return right < left


def begins_anew(server: Server, state: State, now: int) -> bool:
    """The wake-up rule: whether a period begins."""
    return state.deadline < now or overflows(server, state, now)


def undecided(server: Server, state: State, now: int) -> bool:
    """Whether the wake-up rule depends on less than the clocks' error."""
    budget = BUDGET_NS + state.error
    error = CLOCK_NS + budget * server.period // server.runtime
    if server.task:
        error += (2 * server.period // server.runtime + 2) << DL_SCALE
    return (
        abs(zero_lag(server, state) - now) <= error
        or abs(state.deadline - now) <= CLOCK_NS
    )
