# SPDX-License-Identifier: Apache-2.0
"""The simulation: EDF and CBS, told what they cannot know.

That is when tasks wake up and block, and who has the CPU. From that, and from
the rules of cbs.py and edf.py alone, it knows at every moment which server
has what budget and which deadline, and so who must have the CPU.

What the trace cannot tell decides nothing: where the wake-up rule depends on
less than the clocks' error, the simulation goes on with both outcomes, until
a later decision contradicts one of them.
"""

import copy
import dataclasses

import cbs
import edf

# No more outcomes at a time than that.
MOST_WORLDS = 64


class Simulation:
    """All outcomes that the trace allows.

    :ivar worlds: the more likely ones first
    """

    def __init__(
        self, servers: list[cbs.Server], starving: bool = False
    ) -> None:
        self.servers = servers
        states = [cbs.State() for _ in servers]
        self.worlds = [edf.World(servers, states, starving)]
        self.forks = 0

    def _each(self, action: str, now: int, *arguments: object) -> None:
        """Do something in all worlds that get there."""
        last = None
        alive = []
        for world in self.worlds:
            try:
                world.advance(now)
                getattr(world, action)(*arguments)
            except edf.Fault as fault:
                if last is None or fault.when > last.when:
                    last = fault
            else:
                alive.append(world)
        if last and not alive:
            raise last
        self.worlds = alive

    def start(self, now: int) -> None:
        """Begin here, with nobody awake."""
        self.worlds[0].now = now

    def switch(self, now: int, runner: int | str | None) -> None:
        """Someone else has the CPU."""
        self._each('switch', now, runner)

    def block(self, now: int, n: int) -> None:
        """A task of a server sleeps."""
        self._each('block', now, n)

    def wake(self, now: int, n: int) -> None:
        """A task of a server wakes up."""
        self._each('_deviate', now)
        worlds = []
        for world in self.worlds:
            state = world.states[n]
            server = self.servers[n]
            anew = cbs.begins_anew(server, state, now)
            if anew and state.stale and world.needs_rule(n):
                other = copy.deepcopy(world)
                other.wake(n, anew=False)
                other.states[n].excused = True
                other.chosen += 1
                other.stales += 1
                worlds.append(other)
            if world.needs_rule(n) and cbs.undecided(server, state, now):
                other = copy.deepcopy(world)
                other.wake(n, not anew)
                other.chosen += 1
                worlds.append(other)
                self.forks += 1
            world.wake(n, anew)
            worlds.append(world)
        worlds.sort(key=lambda world: world.chosen)
        self.worlds = self._distinct(worlds)[:MOST_WORLDS]

    def _distinct(self, worlds: list[edf.World]) -> list[edf.World]:
        """One of those that are the same from now on."""
        found: dict[str, edf.World] = {}
        for world in worlds:
            states = [dataclasses.replace(s, order=0) for s in world.states]
            key = str((states, world.wanted, world.since))
            found.setdefault(key, world)
        return list(found.values())

    def finish(self, now: int) -> edf.World:
        """The likeliest world of those that are left."""
        self._each('_deviate', now)
        return self.worlds[0]
