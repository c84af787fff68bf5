# SPDX-License-Identifier: Apache-2.0
"""EDF between the servers of one CPU, and how the kernel differs from it.

- The earliest deadline goes first; of equal ones, the first in the queue.
- A server without tasks leaves the queue when it would go first; it keeps r
  and d. A deadline task that sleeps is not in the queue.

Each switch, wake-up, end of a budget and replenishment is a decision. The time
for which another one has the CPU then is its deviation.
"""

import dataclasses

from cbs import (
    BUDGET_NS,
    CLOCK_NS,
    LATE_NS,
    LATENCY_NS,
    LONG_AGO,
    PIECE_NS,
    PIECES_NS,
    SWITCH_NS,
    US,
    Server,
    State,
)


class Fault(Exception):
    """The kernel decided otherwise, and nothing explains it."""

    def __init__(self, when: int, text: str) -> None:
        super().__init__(f'at {when / US:.0f} us: {text}')
        self.when = when


@dataclasses.dataclass
class World:
    """All servers of a CPU, from event to event.

    :ivar starving: FIFO tasks of the root leave nothing to fair tasks
    :ivar woken: when a task woke up that may preempt who has the CPU
    :ivar runner: the server that has the CPU, a class of others, or None
    :ivar decisions: how many were compared
    :ivar worst: the longest deviation
    :ivar late: the longest time that a budget was not used up at its deadline
    :ivar ties: decisions between deadlines that the clock cannot tell apart
    :ivar ended: budgets that ended within the clocks' error of their end
    :ivar chosen: wake-ups with the less likely of two outcomes
    :ivar fair: time that the fair server took before reservations
    :ivar stales: wake-ups that found the server in the queue, with a budget
                  that the wake-up rule would not have let it keep
    :ivar overruns: budgets that a task of the same group overran
    :ivar overrun: the longest of those overruns
    """

    servers: list[Server]
    states: list[State]
    starving: bool = False
    now: int = LONG_AGO
    woken: int = LONG_AGO
    runner: int | str | None = None
    wanted: int | None = None
    since: int | None = None
    orders: int = 0
    decisions: int = 0
    worst: int = 0
    late: int = 0
    ties: int = 0
    ended: int = 0
    chosen: int = 0
    fair: int = 0
    stales: int = 0
    overruns: int = 0
    overrun: int = 0

    def server_on_cpu(self) -> int | None:
        """The server that has the CPU."""
        return self.runner if isinstance(self.runner, int) else None

    def advance(self, until: int) -> None:
        """Let the time pass; budgets end and come."""
        while True:
            when, what = until, None
            for n, state in enumerate(self.states):
                if state.throttled and state.deadline < when:
                    when, what = max(state.deadline, self.now), n
            on = self.server_on_cpu()
            if on is not None:
                state = self.states[on]
                end = self.now + max(state.runtime, 0)
                if state.queued and end < when:
                    when, what = end, on
            self._pass(when)
            if what is None:
                return
            if self.states[what].throttled:
                self._replenish(what)
            else:
                self._throttle(what)
            self.decide()

    def _pass(self, until: int) -> None:
        """Charge who has the CPU."""
        on = self.server_on_cpu()
        if on is not None:
            self.states[on].runtime -= until - self.now
        elif self.runner == 'c' and self.starving and self.wanted is not None:
            self.fair += until - self.now
        self.now = until
        self._deviate()
        for n, state in enumerate(self.states):
            if state.excused or not state.queued or not state.awake:
                continue
            if state.runtime > BUDGET_NS + state.error:
                late = until - state.deadline
                self.late = max(self.late, late)
                if late > LATE_NS:
                    raise Fault(
                        until,
                        f'server {n} has {state.runtime / US:.0f} us '
                        f'{late / US:.0f} us after its deadline',
                    )

    def _deviate(self) -> None:
        """How long the decision deviates by now."""
        if self.since is None:
            return
        deviation = self.now - self.since
        if self._excused():
            if isinstance(self.runner, int) and deviation > LATENCY_NS:
                self.overrun = max(self.overrun, deviation)
                self.overruns += not self.states[self.runner].overran
                self.states[self.runner].overran = True
        elif deviation > LATENCY_NS:
            if self.wanted is not None and self._has_ended(self.wanted):
                self.ended += 1
                self._throttle(self.wanted)
                self._settle(self.wanted)
                self.since = None
                self.decide()
                return
            raise Fault(
                self.since,
                f'{self._name(self.runner)} has the CPU for '
                f'{deviation / US:.0f} us instead of '
                f'{self._name(self.wanted)}',
            )

    def _excused(self) -> bool:
        """Whether who has the CPU may have it before the servers.

        The class that stops CPUs is the kernel's. The fair server serves fair
        tasks if FIFO tasks of the root starve them; its time is limited by
        itself. A task may follow another one of its group as the budget ends.
        """
        on = self.server_on_cpu()
        if on is not None:
            return self.states[on].passed
        return self.runner == 'x' or (self.runner == 'c' and self.starving)

    def _name(self, who: int | str | None) -> str:
        """Who has the CPU, for people."""
        if not isinstance(who, int):
            words = {None: 'none of the servers', '.': 'idle'}
            words |= {'f': 'FIFO of the root', 'c': 'a fair task'}
            return words.get(who, str(who))
        state = self.states[who]
        return (
            f'server {who} (budget {state.runtime / US:.1f}, deadline '
            f'{state.deadline / US:.1f} us'
            f'{", throttled" if state.throttled else ""})'
        )

    def _queue(self, n: int) -> None:
        self.orders += 1
        self.states[n].queued = True
        self.states[n].order = self.orders

    def _throttle(self, n: int) -> None:
        state = self.states[n]
        state.throttled, state.queued = True, False

    def _has_ended(self, n: int) -> bool:
        """Whether the budget may be used up, as far as the clocks tell."""
        state = self.states[n]
        return state.runtime <= BUDGET_NS + state.error

    def _settle(self, n: int) -> None:
        """The likeliest debt that the clocks' errors allow.

        Errors of many pieces would add up otherwise, since a debt is taken
        from the next budget.
        """
        state = self.states[n]
        least, most = (
            -state.runtime - state.error,
            -state.runtime + state.error,
        )
        state.runtime = -max(min(SWITCH_NS, most), least, 0)

    def _replenish(self, n: int) -> None:
        state, server = self.states[n], self.servers[n]
        while state.runtime <= 0:
            state.deadline += server.period
            state.runtime += server.runtime
        if state.deadline < self.now:
            state.deadline = self.now + server.period
            state.runtime = server.runtime
        if state.passed and self.since is not None:
            self.since = self.now
        state.throttled = state.excused = False
        state.passed = state.overran = False
        if state.awake or not server.task:
            self._queue(n)

    def first(self) -> int | None:
        """The server that goes first."""
        while True:
            ready = [n for n, s in enumerate(self.states) if s.queued]
            if not ready:
                return None
            n = min(
                ready,
                key=lambda n: (self.states[n].deadline, self.states[n].order),
            )
            if self.states[n].awake:
                return n
            self.states[n].queued = False
            # schedule() looks at servers only if there are other than fair
            # tasks. By the rules, the server is not in the queue anyway.
            self.states[n].stale = self.runner in ('c', '.') and not any(
                self.states[m].awake for m in ready
            )

    def decide(self) -> None:
        """Compare who should have the CPU with who has it."""
        self.decisions += 1
        have = self.server_on_cpu()
        wanted = self.first()
        if wanted is not None and have is not None and wanted != have:
            one, two = self.states[wanted], self.states[have]
            if two.queued and two.deadline - one.deadline <= CLOCK_NS:
                self.ties += 1
                wanted = have
        if self.since is not None and not self._excused():
            if wanted == have or wanted != self.wanted:
                self.worst = max(self.worst, self.now - self.since)
        if wanted == have and self.runner != 'x':
            self.since = None
        elif wanted != self.wanted or self.since is None:
            self.since = self.now
        self.wanted = wanted

    def switch(self, runner: int | str | None) -> None:
        """Someone else has the CPU."""
        if self._excused() and self.since is not None:
            self.since = self.now
        self._charge_from_wakeup(runner)
        on = self.server_on_cpu()
        if on is not None:
            state = self.states[on]
            state.error = min(state.error + PIECE_NS, PIECES_NS)
            if runner == on:
                state.passed = state.passed or state.throttled
            elif state.throttled and not state.passed:
                self._settle(on)
        self.runner = runner
        self._unstale()
        self.decide()

    def _charge_from_wakeup(self, runner: int | str | None) -> None:
        """Who preempts is charged from the wake-up, not from the switch.

        schedule() does not read the clock again after a wake-up that asks for
        it; see rq_clock_skip_update().
        """
        between = self.now - self.woken
        if between <= CLOCK_NS:
            on = self.server_on_cpu()
            if on is not None:
                self.states[on].runtime += between
            if isinstance(runner, int):
                self.states[runner].runtime -= between
        self.woken = LONG_AGO

    def _unstale(self) -> None:
        """Who leaves the queue when schedule() looks at servers."""
        if self.runner in ('c', '.'):
            return
        for state in self.states:
            state.stale = False

    def block(self, n: int) -> None:
        """A task of a server sleeps."""
        state = self.states[n]
        state.awake -= 1
        self.woken = LONG_AGO
        if not state.awake:
            state.queued = False

    def needs_rule(self, n: int) -> bool:
        """Whether a wake-up now is under the wake-up rule."""
        state = self.states[n]
        return not state.queued and not state.throttled

    def wake(self, n: int, anew: bool) -> None:
        """A task of a server wakes up.

        :param anew: what the wake-up rule says, if it is under it
        """
        state, server = self.states[n], self.servers[n]
        rule = self.needs_rule(n)
        state.awake += 1
        if rule:
            if anew:
                state.runtime = server.runtime
                state.deadline = self.now + server.period
                state.error = 0
                state.excused = False
            state.stale = False
            self._queue(n)
        self.woken = self.now
        self.decide()
