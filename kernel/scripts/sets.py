#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge what the scheduler did with random sets of reservations.

    sets.py LOG

LOG is of the guest's test "sets", see tests/sets.c: the sets, and every
wake-up and switch. The simulation of worlds.py compares each decision. Apart
from it, the service of each server is held against its Q and P.
"""

from collections.abc import Iterable
import dataclasses
import re
import sys

import cbs
import edf
import table
import worlds

US = 1000
MS = 1000 * US
# What a period may lack or have too much: the budget ends up to 15 us late,
# and a debt is paid in the next period.
PERIOD_NS = 30 * US
# The fair server.
FAIR_RUNTIME = 50 * MS
FAIR_PERIOD = 1000 * MS

EVENT = re.compile(r'(-?\d+)([wW])([A-Z])|(-?\d+)([A-Z.fcx])([+-])([A-Z.fcx])')


@dataclasses.dataclass
class Set:
    """A set as the log has it; times in ns since its start.

    :ivar tasks: the server of each task
    :ivar events: time, what, who, and of a switch whether the first one
                  blocks, and the next one
    """

    seed: int
    length: int
    beside: str
    servers: list[cbs.Server] = dataclasses.field(default_factory=list)
    tasks: dict[str, int] = dataclasses.field(default_factory=dict)
    events: list[tuple[int, str, str, bool, str]] = dataclasses.field(
        default_factory=list
    )
    complete: bool = False


@dataclasses.dataclass
class Service:
    """When a server had the CPU, and when it first wanted it."""

    first: int | None = None
    pieces: list[tuple[int, int]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Verdict:
    """What is to be said about a set; times in ns.

    :ivar periods: of servers that always want the CPU
    :ivar excess: the most that a server had above the bound of a CBS
    """

    decisions: int = 0
    switches: int = 0
    forks: int = 0
    worst: int = 0
    late: int = 0
    ties: int = 0
    ended: int = 0
    fair: int = 0
    stales: int = 0
    overruns: int = 0
    overrun: int = 0
    periods: int = 0
    short: int = 0
    over: int = 0
    excess: int = -(10**15)
    faults: list[str] = dataclasses.field(default_factory=list)


def read(lines: Iterable[str]) -> list[Set]:
    """The sets of a log.

    :raises ValueError: a line cannot be read
    """
    sets: list[Set] = []
    now = 0
    for line in lines:
        w = line.split()
        if not w:
            continue
        if w[0] == 'set' and len(w) == 4:
            sets.append(Set(int(w[1]), int(w[2]), w[3]))
            now = 0
        elif w[0] == 'server' and sets:
            sets[-1].servers.append(
                cbs.Server(
                    w[1] == 'task', w[2], int(w[3]) * US, int(w[4]) * US
                )
            )
        elif w[0] == 'task' and sets:
            sets[-1].tasks[w[1]] = int(w[2])
        elif w[0] == 'ev' and sets:
            for word in w[1:]:
                found = EVENT.fullmatch(word)
                if not found:
                    raise ValueError(f'not an event: {word!r}')
                wake, what, who, switch, prev, blocks, after = found.groups()
                now += int(wake or switch)
                sets[-1].events.append(
                    (now, what, who, False, '')
                    if what
                    else (now, 's', prev, blocks == '-', after)
                )
        elif w[0] == 'end' and sets:
            sets[-1].complete = int(w[1]) == len(sets[-1].events)
    return sets


class Player:
    """Tells the simulation what the trace has, and notes who had what."""

    def __init__(self, one: Set) -> None:
        self.set = one
        self.simulation = worlds.Simulation(one.servers, 'f' in one.beside)
        self.services = [Service() for _ in one.servers]
        self.switches = 0
        self.waking: dict[str, int] = {}
        self.asleep = set(one.tasks)
        self.running = '.'
        self.since = one.events[0][0]

    def wakes(self, now: int, who: str) -> None:
        """A task wakes up, unless it does not sleep yet."""
        if who not in self.asleep:
            return
        self.asleep.remove(who)
        n = self.set.tasks[who]
        if self.services[n].first is None:
            self.services[n].first = self.waking[who]
        self.simulation.wake(now, n)

    def switches_to(self, now: int, blocks: bool, after: str) -> None:
        """Another task has the CPU."""
        self.switches += 1
        self.has_had(now)
        if blocks and self.running in self.set.tasks:
            self.asleep.add(self.running)
            self.simulation.block(now, self.set.tasks[self.running])
        self.simulation.switch(now, self.set.tasks.get(after, after))
        self.running, self.since = after, now

    def has_had(self, now: int) -> None:
        """Who had the CPU until now."""
        if self.running in self.set.tasks:
            pieces = self.services[self.set.tasks[self.running]].pieces
            pieces.append((self.since, now))

    def play(self) -> edf.World:
        """All events of the set's length."""
        self.simulation.start(self.since)
        for now, what, who, blocks, after in self.set.events:
            if now >= self.set.length:
                break
            if what == 'w':
                self.waking[who] = now
            elif what == 'W':
                self.wakes(now, who)
            else:
                self.running = who
                self.switches_to(now, blocks, after)
        self.has_had(self.set.length)
        return self.simulation.finish(self.set.length)


def simulate(one: Set) -> tuple[Verdict, list[Service]]:
    """Compare the decisions, and note who had what."""
    player = Player(one)
    verdict = Verdict()
    try:
        last = player.play()
    except edf.Fault as fault:
        verdict.faults.append(str(fault))
        last = player.simulation.worlds[0]
    verdict.switches = player.switches
    verdict.forks = player.simulation.forks
    for field in dataclasses.fields(edf.World):
        if hasattr(verdict, field.name):
            setattr(verdict, field.name, getattr(last, field.name))
    return verdict, player.services


def within(pieces: list[tuple[int, int]], begin: int, end: int) -> int:
    """Service from begin to end."""
    return sum(
        min(to, end) - max(from_, begin)
        for from_, to in pieces
        if to > begin and from_ < end
    )


def excess(server: cbs.Server, pieces: list[tuple[int, int]]) -> int:
    """The most that a CBS had above Q / P of the time, in any interval.

    It may have 2 Q (1 - Q / P): a budget as late as possible, and the next one
    as early as possible. What is above that is returned; negative is less.
    """
    q, p = server.runtime, server.period
    had, most, least = 0, 0, None
    for begin, end in pieces:
        end -= min(cbs.PIECE_NS, end - begin)
        # In units of 1 / P: service minus Q / P of the time.
        low = had * p - q * begin
        least = low if least is None else min(least, low)
        had += end - begin
        most = max(most, had * p - q * end - least)
    return (most - 2 * q * (p - q)) // p


def judge(one: Set) -> Verdict:
    """The verdict on a set."""
    if not one.complete or not one.events:
        return Verdict(faults=['the trace is not complete'])
    verdict, services = simulate(one)
    for name in ('stales', 'overruns'):
        if getattr(verdict, name):
            verdict.faults.append(f'{name}: {getattr(verdict, name)}')
    limit = FAIR_RUNTIME + FAIR_RUNTIME * one.length // FAIR_PERIOD
    if verdict.fair > limit:
        verdict.faults.append(f'the fair server had {us(verdict.fair)} us')
    if not verdict.faults:
        for n, service in enumerate(services):
            hold(verdict, one, n, service)
    return verdict


def hold(verdict: Verdict, one: Set, n: int, service: Service) -> None:
    """Hold what a server had against its Q and P."""
    server = one.servers[n]
    above = excess(server, service.pieces)
    verdict.excess = max(verdict.excess, above)
    if above > PERIOD_NS:
        verdict.faults.append(
            f'server {n} had {us(above)} us more than a CBS may have'
        )
    if server.kind != 'a' or service.first is None:
        return
    begin = service.first
    while begin + server.period <= one.length:
        had = within(service.pieces, begin, begin + server.period)
        verdict.periods += 1
        verdict.short = max(verdict.short, server.runtime - had)
        verdict.over = max(verdict.over, had - server.runtime)
        if abs(had - server.runtime) > PERIOD_NS:
            verdict.faults.append(
                f'server {n} had {us(had)} of {us(server.runtime)} us in the '
                f'period at {us(begin)} us'
            )
        begin += server.period


def us(ns: int) -> str:
    """A time for the table."""
    return f'{ns / US:.1f}'


def report(lines: list[str]) -> tuple[list[str], bool]:
    """The table of all sets of a log, and whether all kept their promise."""
    try:
        sets = read(lines)
    except ValueError as error:
        return [str(error), 'verdict: FAILED'], False
    form = '{:>5} {:>3} {:>5} {:>4} {:>8} {:>7} {:>7} {:>6} {:>6} {:>6} {:>7}'
    out = [
        form.format(
            *('seed', 'n', 'sum', 'root', 'switches', 'decided', 'worst'),
            *('late', 'short', 'over', 'fair'),
        )
    ]
    verdicts = []
    for one in sets:
        v = judge(one)
        verdicts.append(v)
        total = sum(s.runtime * 1000 // s.period for s in one.servers)
        out.append(
            form.format(
                *(one.seed, len(one.servers), f'0.{total:03}', one.beside),
                *(v.switches, v.decisions, us(v.worst), us(v.late)),
                *(us(v.short), us(v.over), us(v.fair)),
            )
        )
        out += [f'      seed {one.seed}: {fault} <--' for fault in v.faults]
    finished = any(line.startswith('DONE') for line in lines)
    if not finished:
        out.append('the test did not end <--')
    ok = finished and bool(sets) and not any(v.faults for v in verdicts)
    out += summary(verdicts)
    out.append(f'verdict: {"passed" if ok else "FAILED"}')
    return out, ok


def summary(verdicts: list[Verdict]) -> list[str]:
    """What is to be said about all sets."""
    if not verdicts:
        return []

    def total(name: str) -> int:
        return sum(getattr(v, name) for v in verdicts)

    def most(name: str) -> str:
        return us(max(getattr(v, name) for v in verdicts))

    bad = sum(bool(v.faults) for v in verdicts)
    return [
        f'{len(verdicts)} sets, {bad} with faults; {total("decisions")} '
        f'decisions at {total("switches")} switches; worst deviation '
        f'{most("worst")} us',
        f'explained: {total("ties")} ties and {total("ended")} ends of '
        f"budgets within the clocks' error, {total('forks')} wake-ups with "
        f'two outcomes, {us(total("fair"))} us of the fair server',
        f'{total("stales")} wake-ups of a server that was left in the '
        f'queue, {total("overruns")} budgets overrun within a group, by '
        f'{most("overrun")} us at most',
        f'{total("periods")} periods of servers that always want the CPU: '
        f'{most("short")} us short and {most("over")} us over at most',
        f'others: a budget was left {most("late")} us after its deadline at '
        f'most; most above the bound of a CBS: {most("excess")} us',
    ]


def main() -> int:
    """Print the table of the log that the argument names."""
    out, ok = report(table.read(sys.argv[1]))
    print('\n'.join(out))
    return not ok


if __name__ == '__main__':
    sys.exit(main())
