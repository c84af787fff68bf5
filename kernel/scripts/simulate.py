#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the schedules of the random test with a simulation of EDF and CBS.

    simulate.py LOG [LOG ...]

The simulation knows nothing of the kernel but the rules. The earliest deadline
comes first. A server that has used up its budget waits for its deadline, and
then has a new budget and a deadline one period later. A server that wakes up
begins a new period if its deadline has passed, or if what is left of its
budget is more than its bandwidth until then. A server that preempts another
one gives it some of its budget, for the switches. What it takes from the log
is what that costs, and what the tasks did: when each was to start, what its
jobs used, and whether it slept before.
"""

from collections.abc import Iterable
import dataclasses
import sys

import table

# From the moment for which a timer is set to the clock that a wakeup or the
# end of a budget sees, on a CPU of one instruction per ns.
TIMER_NS = 2_000
# From then until the task that comes next looks at the clock: one that was
# preempted in user space, or one that slept. It has the CPU, and pays for it.
SWITCH_NS = 3_600
RETURN_NS = 5_900
# A break that nobody fills is closed in the log up to 20 us, by the clock of
# the task. This one is from its sleep to its wakeup.
BREAK_NS = 24_000
# The kernel sets no hrtick for less than HRTICK_NS, and leaves one alone that
# is within REARM_NS of what it should be. schedule() sets it, so that a budget
# which has less left when another server is replenished or wakes up ends late.
# The server pays for it in its next period.
HRTICK_NS = 10_000
REARM_NS = 5_000
# What a dispatch in the log may be off: one such timer, one that was left
# alone in the period before, and an interrupt of 2.3 us. The simulation does
# not know the latter, and may have the two timers the other way round.
TOLERANCE_NS = 18_000
# No more than one in 50 may be off by more than REARM_NS, or what a task has
# used in the kernel without budget, which its group pays for later.
USUAL_NS = 6_000
USUAL_SHARE = 0.98
# Numbers that are closer to each other than this, for the same reasons, may
# compare either way: then the log decides, once for each comparison.
DOUBT_NS = 6_000
ATTEMPTS = 64
# More of them than this, of all decisions, would hide a fault.
SETTLED_SHARE = 0.005
# The end of a set is not compared, where the tasks end.
TAIL_NS = 200_000
# A log with fewer for each set of two reservations or more is a failure.
LEAST_DECISIONS = 50
NOBODY = -1


@dataclasses.dataclass(frozen=True)
class Job:
    """Work that is due at some time, in ns since the start of the set.

    :ivar used: the CPU time that it took, or None if it did not end
    :ivar slept: whether its task slept until then
    """

    due: int
    used: int | None
    slept: bool


@dataclasses.dataclass
class Reservation:
    """A reservation with one task; times in ns.

    :ivar offset: when its task starts
    :ivar jobs: of the task; one that never ends if it is always busy
    """

    runtime: int
    period: int
    offset: int
    jobs: list[Job] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Piece:
    """A run of one task, in ns since the start of the set."""

    who: int
    begin: int
    end: int


@dataclasses.dataclass
class Set:
    """A set of reservations, as the log has it.

    :ivar cost: what preempting another one costs, in ns
    """

    number: int
    length: int
    cost: int = 0
    reservations: list[Reservation] = dataclasses.field(default_factory=list)
    pieces: list[Piece] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A stretch of time in which another one ran than should have.

    :ivar wanted: who should have run
    :ivar seen: who did, one after the other
    """

    begin: int
    end: int
    wanted: int
    seen: tuple[int, ...]

    @property
    def length(self) -> int:
        """Its length, in ns."""
        return self.end - self.begin


# Of a comparison.
Key = tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class Doubt:
    """A comparison in the simulation that could have gone the other way."""

    when: int
    key: Key
    taken: bool


class Server:
    """A deadline server and its task, in the simulation."""

    def __init__(self, number: int, reservation: Reservation) -> None:
        self.number = number
        self.runtime = reservation.runtime
        self.period = reservation.period
        self.jobs = reservation.jobs or [Job(reservation.offset, None, True)]
        self.job = 0
        self.left: int | None = 0
        self.asleep = True
        # Its task has not been in user space since it slept.
        self.returns = False
        self.deadline = 0
        self.budget = 0
        self.queued = False
        self.throttled = False

    def next_event(self) -> int | None:
        """The next time at which something happens without its running."""
        times = []
        if self.throttled:
            times.append(self.deadline)
        if self.asleep and self.job < len(self.jobs):
            times.append(self.jobs[self.job].due + TIMER_NS)
        return min(times, default=None)

    def replenish(self) -> None:
        """Begin the next period."""
        while self.budget <= 0:
            self.budget += self.runtime
            self.deadline += self.period
        self.throttled = False

    def overflows(self, now: int, margin: int = 0) -> bool:
        """Whether what is left is more than the bandwidth until the deadline.

        :param margin: added to what is left, and taken from the time
        """
        laxity = self.deadline - now - margin
        budget = self.budget + margin
        return laxity < 0 or budget * self.period > laxity * self.runtime

    def renew(self, now: int) -> None:
        """Begin a period now."""
        self.deadline = now + self.period
        self.budget = self.runtime

    def run(self, time: int) -> None:
        """Let the task run; its work may end."""
        self.budget -= time
        if self.left is None:
            return
        self.left -= time
        while self.left == 0:
            self.job += 1
            if self.job >= len(self.jobs) or self.jobs[self.job].slept:
                self.asleep = True
                return
            self.left = self.jobs[self.job].used

    def throttle(self) -> None:
        """Wait for the deadline."""
        self.throttled = True
        self.queued = False


class Simulation:
    """EDF over servers; the pieces that come out are in order.

    :ivar answers: what the log has decided, by the key of the doubt
    :ivar doubts: all comparisons that were close
    """

    def __init__(
        self,
        reservations: list[Reservation],
        length: int,
        answers: dict[Key, bool] | None = None,
        cost: int = 0,
    ) -> None:
        self.cost = cost
        self.servers = [Server(i, r) for i, r in enumerate(reservations)]
        self.length = length
        self.answers = answers or {}
        self.doubts: list[Doubt] = []
        self.now = 0
        self.running: Server | None = None
        # When the end of the budget is looked at, which may be late.
        self.hrtick = 0
        # From when on the running task sees the clock.
        self.user = 0

    def ask(self, usual: bool, close: bool, key: Key) -> bool:
        """Settle a comparison; one that is close may have an answer."""
        if not close:
            return usual
        taken = self.answers.get(key, usual)
        self.doubts.append(Doubt(self.now, key, taken))
        return taken

    def wake(self, server: Server) -> None:
        """Wake the task up."""
        server.asleep = False
        server.returns = True
        server.left = server.jobs[server.job].used
        if server.throttled or server.queued:
            return
        early = server.overflows(self.now, -DOUBT_NS)
        late = server.overflows(self.now, DOUBT_NS)
        if self.ask(
            server.overflows(self.now),
            early != late,
            ('wake', server.number, server.job),
        ):
            server.renew(self.now)
        server.queued = True

    def before(self, one: Server, two: Server) -> bool:
        """Whether the first of them goes before the other."""
        if one.deadline == two.deadline:
            usual = two is not self.running
        else:
            usual = one.deadline < two.deadline
        return self.ask(
            usual,
            abs(one.deadline - two.deadline) <= DOUBT_NS,
            ('tie', one.number, one.deadline, two.number, two.deadline),
        )

    def pick(self) -> Server | None:
        """Pick who runs next; a server without a task is not queued."""
        best = None
        for server in self.servers:
            if server.queued and not (best and self.before(best, server)):
                best = server
        return best

    def next_event(self) -> int:
        """The next time at which a server is replenished or wakes up."""
        times = [server.next_event() for server in self.servers]
        return min([t for t in times if t is not None], default=self.length)

    def charge(self) -> None:
        """Throttle who ran, or let it go to sleep.

        The end of a budget is seen by a timer, which is late. Work may end
        before that, and so may an event come that finds some budget left.
        """
        server = self.running
        if not server or not server.queued:
            return
        over = server.budget <= 0
        left = server.left
        if over and not server.asleep and left is not None:
            key = ('work', server.number, server.job)
            if self.ask(False, left <= DOUBT_NS, key):
                server.run(left)
        if server.asleep:
            key = ('sleep', server.number, server.job)
            if self.ask(over, abs(server.budget) <= DOUBT_NS, key):
                server.budget = min(server.budget, 0)
                server.throttle()
            else:
                server.budget = max(server.budget, 1)
                server.queued = False
            return
        event = self.next_event()
        late = self.ask(
            not over,
            abs(server.budget) <= DOUBT_NS and event - self.now <= DOUBT_NS,
            ('budget', server.number, server.deadline),
        )
        if over and late:
            self.hrtick = event + HRTICK_NS
        elif over or not late:
            server.throttle()

    def set_hrtick(self, before: Server | None) -> None:
        """Set the timer for the end of the budget, as schedule() does."""
        if not self.running:
            self.hrtick = 0
            return
        wanted = self.now + TIMER_NS + max(self.running.budget, HRTICK_NS)
        if self.running is not before or abs(wanted - self.hrtick) > REARM_NS:
            self.hrtick = wanted

    def pay(self, before: Server | None) -> None:
        """Move the cost of a preemption to who is preempted."""
        server = self.running
        if server and before and server is not before and before.queued:
            server.budget -= self.cost
            before.budget = min(before.budget + self.cost, before.runtime)

    def switch(self, before: Server | None) -> None:
        """Begin to run another task, or one that slept."""
        server = self.running
        if server and (server is not before or server.returns):
            self.user = self.now + (RETURN_NS if server.returns else SWITCH_NS)
            server.returns = False

    def run(self) -> list[Piece]:
        """Simulate all of it; a piece is what its task sees of it."""
        pieces: list[Piece] = []
        while self.now < self.length:
            before = self.running
            self.charge()
            for server in self.servers:
                if server.throttled and server.deadline <= self.now:
                    server.replenish()
                    # One that is empty is stopped: a wakeup has its own rule.
                    server.queued = not server.asleep
            for server in self.servers:
                if (
                    server.asleep
                    and server.job < len(server.jobs)
                    and server.jobs[server.job].due + TIMER_NS <= self.now
                ):
                    self.wake(server)
            self.running = self.pick()
            self.pay(before)
            self.set_hrtick(before)
            self.switch(before)
            until = min(self.length, self.next_event())
            if self.running:
                until = min(until, self.hrtick)
                if self.running.left is not None:
                    until = min(until, self.now + self.running.left)
                begin = max(self.now, self.user)
                if begin < until:
                    add(pieces, Piece(self.running.number, begin, until))
                self.running.run(until - self.now)
            self.now = until
        return pieces


def add(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece; it may go on with the last one."""
    if pieces:
        last = pieces[-1]
        if (last.who, last.end) == (piece.who, piece.begin):
            pieces[-1] = Piece(last.who, last.begin, piece.end)
            return
    pieces.append(piece)


def filled(pieces: Iterable[Piece], end: int) -> list[Piece]:
    """The pieces, and nobody between them."""
    found = []
    now = 0
    for piece in pieces:
        if piece.begin > now:
            found.append(Piece(NOBODY, now, piece.begin))
        found.append(piece)
        now = piece.end
    if now < end:
        found.append(Piece(NOBODY, now, end))
    return found


def closed(pieces: list[Piece], i: int, who: int) -> bool:
    """Whether the log has one run of a task for this break between two."""
    return (
        0 < i < len(pieces) - 1
        and pieces[i].who == NOBODY
        and pieces[i - 1].who == pieces[i + 1].who == who
        and pieces[i].end - pieces[i].begin <= BREAK_NS
    )


def differences(
    simulated: Iterable[Piece], logged: Iterable[Piece], end: int
) -> list[Difference]:
    """All stretches before the end in which the two are not the same."""
    first, second = filled(simulated, end), filled(logged, end)
    found: list[Difference] = []
    i = j = now = 0
    while now < end:
        while first[i].end <= now:
            i += 1
        while second[j].end <= now:
            j += 1
        until = min(first[i].end, second[j].end, end)
        wanted, seen = first[i].who, second[j].who
        if wanted != seen and not closed(first, i, seen):
            last = found[-1] if found else None
            # Not over a switch in the simulation: each may be late.
            if last and last.end == now and now > first[i].begin:
                found[-1] = Difference(
                    last.begin, until, wanted, (*last.seen, seen)
                )
            else:
                found.append(Difference(now, until, wanted, (seen,)))
        now = until
    return found


@dataclasses.dataclass
class Outcome:
    """The comparison of a set.

    :ivar decisions: how many dispatches the simulation has
    :ivar found: all differences, whatever their length
    :ivar settled: the comparisons that the log has turned round
    """

    decisions: int
    found: list[Difference]
    settled: int

    @property
    def wrong(self) -> list[Difference]:
        """Those that are out of tolerance."""
        return [d for d in self.found if d.length > TOLERANCE_NS]

    @property
    def worst(self) -> int:
        """The longest, in ns."""
        return max((d.length for d in self.found), default=0)


def compare(case: Set) -> Outcome:
    """Simulate a set, and compare.

    If the log differs after a comparison that was close, that is turned round,
    and stays so if the first difference comes later then.
    """
    answers: dict[Key, bool] = {}
    end = case.length - TAIL_NS

    def attempt(
        tried: dict[Key, bool],
    ) -> tuple[Simulation, Outcome, int]:
        simulation = Simulation(
            case.reservations, case.length, tried, case.cost
        )
        pieces = simulation.run()
        outcome = Outcome(
            len(pieces),
            differences(pieces, case.pieces, end),
            len(tried),
        )
        first = outcome.wrong[0].begin if outcome.wrong else end
        return simulation, outcome, first

    simulation, outcome, first = attempt(answers)
    while outcome.wrong:
        close = {
            doubt.key: doubt
            for doubt in simulation.doubts
            if doubt.when <= first + TOLERANCE_NS and doubt.key not in answers
        }
        for doubt in list(close.values())[: -1 - ATTEMPTS : -1]:
            tried = {**answers, doubt.key: not doubt.taken}
            better = attempt(tried)
            if better[2] > first:
                answers = tried
                simulation, outcome, first = better
                break
        else:
            break
    return outcome


def parse(lines: Iterable[str]) -> tuple[list[Set], int]:
    """The sets of a log that are complete, and how many there should be."""
    sets: list[Set] = []
    wanted = cost = 0
    current: Set | None = None
    now = 0
    for line in lines:
        w = line.split()
        if w[:1] == ['seed'] and len(w) == 6:
            wanted, cost = int(w[3]), int(w[5])
        elif w[:1] == ['set'] and len(w) == 4:
            current, now = Set(int(w[1]), int(w[2]), cost), 0
        elif current is None or not w:
            continue
        elif w[0] == 'reservation' and len(w) == 5:
            q, p, offset = (int(word) for word in w[2:])
            current.reservations.append(
                Reservation(q * 1000, p * 1000, offset)
            )
        elif w[0] == 'job' and len(w) == 5:
            job = Job(int(w[2]), int(w[3]) or None, w[4] == 'slept')
            current.reservations[int(w[1])].jobs.append(job)
        elif len(w) == 3 and w[0].isdigit():
            who, begin = int(w[0]), now + int(w[1])
            now = begin + int(w[2])
            # Whoever has no reservation may run when nobody of them does.
            if who < len(current.reservations):
                current.pieces.append(Piece(who, begin, now))
        elif w[:2] == ['ok', 'set']:
            sets.append(current)
            current = None
    return sets, wanted


def name(who: int) -> str:
    """The name of a task in the table."""
    return 'nobody' if who == NOBODY else f'g{who}'


def one_log(lines: list[str]) -> tuple[list[str], bool]:
    """Judge a log."""
    sets, wanted = parse(lines)
    out = []
    decisions = settled = wrong = least = 0
    lengths: list[int] = []
    for case in sets:
        outcome = compare(case)
        decisions += outcome.decisions
        settled += outcome.settled
        least += LEAST_DECISIONS * (len(case.reservations) > 1)
        lengths += [d.length for d in outcome.found]
        wrong += len(outcome.wrong)
        for d in outcome.wrong[:10]:
            seen = ', '.join(name(who) for who in d.seen)
            out.append(
                f'set {case.number} at {d.begin / 1000:.1f} us, for '
                f'{d.length / 1000:.1f} us: {name(d.wanted)} wanted, '
                f'{seen} seen <--'
            )
    unusual = sum(length > USUAL_NS for length in lengths)
    share = 1 - unusual / decisions if decisions else 0
    tasks = sum(len(case.reservations) for case in sets)
    jobs = sum(len(r.jobs) for case in sets for r in case.reservations)
    out.append(
        f'{len(sets)} sets of {wanted}, {tasks} reservations, {jobs} jobs: '
        f'{decisions} decisions compared, {wrong} differ; worst '
        f'{max(lengths, default=0) / 1000:.1f} us, {100 * share:.2f} % within '
        f'{USUAL_NS // 1000} us; {settled} close comparisons settled by '
        'the log'
    )
    ok = (
        len(sets) == wanted > 0
        and not wrong
        and decisions >= max(least, 1)
        and share >= USUAL_SHARE
        and settled <= SETTLED_SHARE * decisions
        and any(line.startswith('DONE random') for line in lines)
        and not any(line.startswith('FAIL') for line in lines)
    )
    return out, ok


def schedules(one: list[str], two: list[str]) -> tuple[list[str], bool]:
    """Judge the log of busy tasks, and the log of tasks that sleep."""
    out, good = [], True
    for title, lines in ('busy', one), ('sleeping', two):
        said, ok = one_log(lines)
        out += [*said[:-1], f'{title}: {said[-1]}']
        good = good and ok
    out.append(f'verdict: {"passed" if good else "FAILED"}')
    return out, good


def main() -> int:
    """Judge the logs that the arguments name."""
    good = True
    for path in sys.argv[1:]:
        out, ok = one_log(table.read(path))
        print('\n'.join(out))
        print(f'verdict: {"passed" if ok else "FAILED"}')
        good = good and ok
    return not good


if __name__ == '__main__':
    sys.exit(main())
