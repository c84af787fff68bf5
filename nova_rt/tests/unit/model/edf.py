# SPDX-License-Identifier: Apache-2.0
"""Deadline servers on one CPU, earliest deadline first, event by event.

Written from the kernel's rules and not from ``nova_rt.model.cbs``, which has
no neighbours, only what they can do at most. The rule for waking up can be
another: a test puts faults in.
"""


def kernel(server, now):
    """update_dl_entity(): a new period unless both can be kept."""
    left = server.deadline - now
    if left <= 0 or server.budget * server.period > left * server.runtime:
        server.budget = server.runtime
        server.deadline = now + server.period


# Faults.


def never_anew(server, now):
    """The budget is kept whatever it is worth: only an old one is replaced."""
    if server.deadline <= now:
        server.budget = server.runtime
        server.deadline = now + server.period


def always_anew(server, now):
    """Whoever sleeps has a new budget at once: more than Q in a period."""
    server.budget = server.runtime
    server.deadline = now + server.period


def full_with_old_deadline(server, now):
    """A full budget, and the deadline that the old one had."""
    if server.deadline <= now:
        server.deadline = now + server.period
    server.budget = server.runtime


def old_with_new_deadline(server, now):
    """What is left of the budget, for a whole period."""
    if server.deadline <= now:
        server.budget = server.runtime
    server.deadline = now + server.period


class Server:
    """A deadline server and the requests of its container, in order.

    :ivar done: when each request was done
    """

    def __init__(self, runtime, period, arrivals, works, rule=kernel):
        self.runtime, self.period, self.rule = runtime, period, rule
        self.arrivals, self.works = list(arrivals), list(works)
        self.budget, self.deadline = 0, -1
        self.awake = False
        self.left = 0
        self.done = []

    @property
    def next_arrival(self):
        if len(self.done) < len(self.arrivals):
            return self.arrivals[len(self.done)]
        return float('inf')

    def settle(self, now):
        """Wake up, and have a new budget where its time has come."""
        if not self.awake and self.next_arrival <= now:
            self.awake = True
            self.left = self.works[len(self.done)]
            # Throttled, it stays so: the timer is set for its deadline.
            if self.budget or now >= self.deadline:
                self.rule(self, now)
        if self.awake and not self.budget and now >= self.deadline:
            self.budget = self.runtime
            self.deadline += self.period

    def run(self, until, now):
        """Have the CPU up to an instant, at most.

        :returns: the instant up to which it had it
        """
        step = min(self.left, self.budget, until - now)
        self.left -= step
        self.budget -= step
        now += step
        if not self.left:
            self.done.append(now)
            self.awake = self.next_arrival <= now
            if self.awake:
                self.left = self.works[len(self.done)]
        return now


def run(*servers):
    """Schedule them until the first one has done all its requests.

    :returns: when each of its requests was done
    """
    now = 0
    while len(servers[0].done) < len(servers[0].arrivals):
        for server in servers:
            server.settle(now)
        until = min(
            (
                server.deadline if server.awake else server.next_arrival
                for server in servers
                if not (server.awake and server.budget)
            ),
            default=float('inf'),
        )
        ready = [each for each in servers if each.awake and each.budget]
        if ready:
            first = min(ready, key=lambda each: each.deadline)
            now = first.run(until, now)
        else:
            now = until
    return servers[0].done
