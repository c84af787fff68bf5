# SPDX-License-Identifier: Apache-2.0
"""The operations: what may be done when, and what must become of it."""

import functools
import sys

import hypothesis
from hypothesis import errors, stateful
from hypothesis import strategies as st

from nova_rt.tests.functional import base
from nova_rt.tests.functional.property import cloud, model

#: At once: enough to fill every host.
MOST_SERVERS = 12
_HINTS = {None: None, '100/1000': 100_000, '500/1000': 500_000}
#: Reservations that one is changed to -> ppm.
_CHANGES = {'150/1000': 150_000, '450/1000': 450_000, '80/100': 800_000}
_PLACES = st.integers(0, 2**16 - 1)


def servers(*states, ppm=0, dead=False):
    """List the names of the servers that something can be done to.

    :param states: of the server; any if there is none
    :param ppm: its least bandwidth
    :param dead: whether its host may be dead
    """

    def suits(machine, server):
        return (
            (not states or server.state in states)
            and server.ppm >= ppm
            and (dead or not server.hosts & machine.model.dead)
        )

    def find(machine):
        return [
            name
            for name, server in machine.model.servers.items()
            if suits(machine, server)
        ]

    return find


def step(**arguments):
    """A rule that can be drawn at any time.

    What is drawn for a list that depends on the cloud is a number, and the
    operation is done to the one at that place; where the list is empty,
    something else is done. So what Hypothesis draws never depends on what
    the cloud did before, which may differ from run to run: on which of two
    equal hosts a server is, for example. The operation may return a word for
    its outcome; it is counted.

    :param arguments: name of a parameter -> what it can be, or a function of
        the machine that lists that
    """

    def draw(values):
        return _PLACES if callable(values) else st.sampled_from(values)

    def decorate(function):
        @functools.wraps(function)
        def run(self, *args, **chosen):
            for name in chosen:
                if callable(arguments[name]) and isinstance(chosen[name], int):
                    found = arguments[name](self)
                    if not found:
                        self.instead()
                        return
                    chosen[name] = found[chosen[name] % len(found)]
            self.tell(function.__name__, chosen)
            outcome = function(self, *args, **chosen)
            # What has started is boosted, and the next operation meets it.
            self.supply.done_boosts += self.cloud.boost_all(living(self))
            # Not an invariant for Hypothesis, which would print each check.
            self.cloud.check(self.model)
            words = function.__name__, outcome
            self.supply.done[': '.join(filter(None, words))] += 1

        return stateful.rule(
            **{name: draw(values) for name, values in arguments.items()}
        )(run)

    return decorate


def deletable(self):
    """A resized server only if both its hosts live: Nova asks the source."""
    moving = servers('resized')(self)
    return moving + [
        name
        for name, server in self.model.servers.items()
        if server.state != 'resized'
    ]


def evacuable(self):
    return [
        name
        for name in servers('active', 'stopped', dead=True)(self)
        if self.model.servers[name].host in self.model.dead
    ]


def flavors(self):
    """All, or none if there are too many servers."""
    full = len(self.model.servers) >= MOST_SERVERS
    return [] if full else list(cloud.FLAVORS)


def living(self):
    return sorted(cloud.HOSTS.keys() - self.model.dead)


def dead(self):
    return sorted(self.model.dead)


class Machine(stateful.RuleBasedStateMachine):
    """One sequence of operations.

    :param supply: where the cloud comes from, :class:`Supply`
    """

    def __init__(self, supply):
        super().__init__()
        self.supply = supply
        self.cloud = supply.take()
        self.model = model.Model(
            {host: self.cloud.capacity(host) for host in cloud.HOSTS}
        )
        self.count = self.replaced = 0
        #: Server -> flavor that it was created with, and the hint's ppm.
        self.hints = {}

    def teardown(self):
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(
            error, errors.HypothesisException
        ):
            # Who knows what it has left behind.
            self.supply.drop()
            return
        try:
            self.clean_up()
        except Exception:
            self.supply.drop()
            raise

    def clean_up(self):
        """Delete all servers: nothing may be left."""
        for host in dead(self):
            self.revive(host)
        for name in list(self.model.servers):
            self.delete(name)
        self.cloud.check(self.model)
        self.cloud.check_empty()

    def instead(self):
        """Do something else where nothing is as an operation wants it."""
        self.replaced += 1
        found = servers('active', 'stopped', ppm=1)(self)
        if found and self.replaced % 2:
            wishes = list(_CHANGES)
            self.change(
                server=found[self.replaced % len(found)],
                reservation=wishes[self.replaced % len(wishes)],
                killed=False,
            )
        elif flavors(self):
            self.create(flavor='small')
        else:
            self.audit(host=min(cloud.HOSTS))

    def tell(self, operation, chosen):
        """Print what is done to whom, if the sequence is printed."""
        words = ', '.join(f'{name}={value}' for name, value in chosen.items())
        hypothesis.note(f'# {operation} {words}')

    # Operations

    @stateful.initialize(
        flavors=st.lists(
            st.sampled_from(list(cloud.FLAVORS)), min_size=2, max_size=6
        )
    )
    def begin(self, flavors):
        """Create the first servers: in some sequences there are no others."""
        for flavor in flavors:
            self.create(flavor)

    @step(
        flavor=flavors,
        hint=list(_HINTS),
        host=[None, None, None, *cloud.HOSTS],
        refusing=[None, None, None, *cloud.HOSTS],
    )
    def create(self, flavor, hint=None, host=None, refusing=None):
        """Create a server.

        :param host: the only one that it may come to
        :param refusing: one whose kernel refuses reservations meanwhile
        """
        self.count += 1
        name = f's{self.count}'
        wish = _HINTS[hint]
        fits = wish is None or wish <= cloud.FLAVORS[flavor][1]
        with self.cloud.refusing(refusing):
            assert self.cloud.ask(name, flavor, hint, host) == fits
        if not fits:
            return 'bad hint'
        self.hints[name] = flavor, wish
        server = self.model.servers[name] = self.make(name, flavor)
        room = self.model.room(server)
        if host is not None:
            room &= {host}
        if server.ppm:
            room -= {refusing}
        seen = self.cloud.server(name)
        assert (seen['status'] == 'ACTIVE') == bool(room), (seen, room)
        server.state = seen['status'].lower()
        if room:
            self.settle(name, server, room)
        elif living(self) and host is None and refusing is None:
            assert f'{server.ppm}' in base.fault_of(seen), seen
        return seen['status']

    def make(self, name, flavor):
        """Make the model of a server with a flavor.

        A hint counts for the flavor that it was given with.
        """
        _, ppm, vcpus = cloud.FLAVORS[flavor]
        hinted, wish = self.hints[name]
        if flavor == hinted and wish is not None:
            ppm = wish
        return model.Server(flavor, vcpus, ppm)

    def settle(self, name, server, room):
        """A server has come to a host: one of those with room."""
        host = self.cloud.see(name).host
        assert host in room, (host, room)
        self.model.put(server, host, self.cloud.cpus_of(name))
        hypothesis.note(f'# {name}: {server.state} on {host}, {server.hold}')

    @step(server=deletable)
    def delete(self, server):
        self.cloud.delete(server)
        del self.model.servers[server]

    @step(server=servers('active'))
    def stop(self, server):
        self.act(server, 'os-stop', 'stopped')

    @step(server=servers('stopped'))
    def start(self, server):
        self.act(server, 'os-start', 'active')

    @step(server=servers('active'))
    def pause(self, server):
        self.act(server, 'pause', 'paused')

    @step(server=servers('paused'))
    def unpause(self, server):
        self.act(server, 'unpause', 'active')

    @step(server=servers('active'))
    def reboot(self, server):
        self.act(server, 'reboot', 'active', {'type': 'SOFT'})

    @step(server=servers('active', 'stopped', 'paused'))
    def reboot_hard(self, server):
        self.act(server, 'reboot', 'active', {'type': 'HARD'})

    # Casts are calls here: nova-api would answer a stopped server's rebuild
    # when that is over, in a form that its own schema of answers refuses.
    @step(server=servers('active'))
    def rebuild(self, server):
        self.act(server, 'rebuild', 'active', {'imageRef': cloud.IMAGE})

    @step(server=servers('active', 'stopped', 'paused'))
    def shelve(self, server):
        self.act(server, 'shelve', 'shelved')

    @step(server=servers('shelved'))
    def offload(self, server):
        self.act(server, 'shelveOffload', 'shelved_offloaded')
        old = self.model.servers[server]
        old.host = old.hold = None

    @step(server=servers('shelved'))
    def unshelve(self, server):
        self.act(server, 'unshelve', 'active')

    @step(server=servers('shelved_offloaded'))
    def unshelve_offloaded(self, server):
        """Schedule it anew; where nowhere is room, it stays as it is."""
        old = self.model.servers[server]
        room = self.model.room(old)
        self.cloud.act(server, 'unshelve')
        if not room:
            return 'no room'
        old.state = 'active'
        self.settle(server, old, room)
        return 'ACTIVE'

    def act(self, name, action, state, arguments=None):
        """Do something that leaves everything where it is."""
        assert self.cloud.act(name, action, arguments)
        self.model.servers[name].state = state

    @step(server=servers('active', ppm=1))
    def lose(self, server):
        """Someone resets what the kernel has; the periodic check comes."""
        host = self.model.servers[server].host
        self.cloud.lose_reservation({'id': self.cloud.uuids[server]}, host)
        self.cloud.verify(host)

    @step(
        server=servers('active', 'stopped', ppm=1),
        reservation=list(_CHANGES),
        killed=[False, False, True],
    )
    def change(self, server, reservation, killed):
        """Change a reservation; it keeps its CPUs if they have room.

        :param killed: whether its service restarts after that
        """
        old = self.model.servers[server]
        ppm, before = _CHANGES[reservation], old.hold
        free = self.model.free_for(old)
        fits = old.vcpus <= sum(left >= ppm for left in free.values())
        stays = all(free[cpu] >= ppm for cpu in before.cpus)
        answer = self.cloud.change(server, reservation)
        assert (answer.condition == 'Applied') == fits, (answer, free)
        if killed:
            self.cloud.restart(old.host)
        if not fits:
            return 'no room'
        old.ppm, old.hold = ppm, None
        self.model.put(old, old.host, self.cloud.cpus_of(server))
        assert not stays or old.hold.cpus == before.cpus, (before, old.hold)
        return 'stays' if stays else 'other CPUs'

    # Three rules: it is drawn as often as three other operations.
    change_again = change_once_more = change

    @step(server=servers('active', 'stopped'), flavor=list(cloud.FLAVORS))
    def resize(self, server, flavor):
        old = self.model.servers[server]
        new = self.make(server, flavor)
        room = self.model.room(new)
        taken = self.cloud.act(
            server, 'resize', {'flavorRef': self.cloud.flavors[flavor]}
        )
        if flavor == old.flavor:
            assert not taken
            return 'same flavor'
        return self.end_move(server, new, room)

    @step(server=servers('active', 'stopped'))
    def migrate(self, server):
        old = self.model.servers[server]
        new = model.Server(old.flavor, old.vcpus, old.ppm)
        room = self.model.room(new) - {old.host}
        self.cloud.act(server, 'migrate')
        return self.end_move(server, new, room)

    def end_move(self, name, new, room):
        """A server has been moved, or nowhere was room for it."""
        moved = self.cloud.see(name).vm_state == 'resized'
        assert moved == bool(room), (moved, room)
        if not moved:
            return 'no room'
        new.state = 'resized'
        self.settle(name, new, room)
        new.before = self.model.servers[name]
        new.left = new.before.left
        self.model.servers[name] = new
        return 'moved'

    @step(server=servers('resized'))
    def confirm(self, server):
        new = self.model.servers[server]
        assert self.cloud.act(server, 'confirmResize')
        new.state, new.before = new.before.state, None

    @step(server=servers('resized'))
    def revert(self, server):
        assert self.cloud.act(server, 'revertResize')
        new = self.model.servers[server]
        new.before.left = new.left
        self.model.servers[server] = new.before

    @step(server=evacuable)
    def evacuate(self, server):
        old = self.model.servers[server]
        new = model.Server(old.flavor, old.vcpus, old.ppm, 'stopped')
        room = self.model.room(new)
        taken = self.cloud.act(server, 'evacuate', {})
        assert taken == bool(room), (taken, room)
        if not living(self):
            # nova-api refuses it: none of the services is new enough.
            return 'all dead'
        if not room:
            # What it holds it keeps: its host may come back.
            old.ran, old.state = old.state, 'error'
            return 'no room'
        self.settle(server, new, room)
        new.left = old.left + old.holds
        self.model.servers[server] = new
        return 'moved'

    @step(host=living, age_s=[0, cloud.STARTUP_S])
    def restart(self, host, age_s):
        """Restart a service.

        :param age_s: of all its containers
        """
        self.cloud.restart(host, age_s)

    @step(host=living, seconds=[1, cloud.STARTUP_S])
    def let_time_pass(self, host, seconds):
        """Boosts end, in the kernel and a second later in the claims."""
        before = self.cloud.count_boosted(host)
        self.cloud.boost(host, seconds)
        if self.cloud.count_boosted(host) < before:
            return 'boosts over'
        return 'boosted' if before else None

    @step(host=living)
    def audit(self, host):
        if host in self.model.dead:
            return 'dead'
        self.cloud.audit(host)

    @step(host=living)
    def kill(self, host):
        self.cloud.kill(host)
        self.model.dead.add(host)

    @step(host=dead)
    def revive(self, host):
        self.cloud.revive(host)
        self.model.dead.remove(host)
        for server in self.model.servers.values():
            server.left = [each for each in server.left if each.host != host]
