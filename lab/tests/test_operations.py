# SPDX-License-Identifier: Apache-2.0
"""Every operation of Nova on a real-time server, and its reservation.

For a lab of ``lab up --computes 2``. CASES has the state of Placement,
record, kernel, trackers and disk after each operation. The state that they
have is noted, and must be that of the manual's table: ``make operations``.
"""

import collections
import contextlib
import dataclasses
import operator
import os
import pathlib
import re
import subprocess
import time
from typing import Any, NamedTuple
import unittest

import libvirt
from openstack import exceptions as sdk_exceptions

from lab import namespace, operations, second, world
from lab.measure import container
from lab.operations import NONE, NOTHING, Row, State
from lab.tests import base, test_moves
from nova_rt.reservation import record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers

#: The manual is about to be written, and need not agree.
NOTING = os.environ.get('NOVA_RT_TEST_OPERATIONS') == 'note'
FIRST, SECOND = namespace.HOST_NAME, second.HOST
HOSTS = (FIRST, SECOND)
# Both fit on a host at once.
SMALL, LARGE = '10000/100000', '20000/100000'
HINT = '5000/100000'
# No kernel gives so much of a CPU.
TOO_MUCH = '99000/100000'
PLAIN = 'plain'
KEPT, AS_IMAGE = 'kept', 'as the image'
LATER = 'accepted, then refused'
MARK = 'before'
SETTLE_S = 60
# Events of actions have their details from here on.
_DETAILS = '2.84'
_UNSETTLED = (
    AssertionError,
    OSError,
    ValueError,
    libvirt.libvirtError,
    subprocess.CalledProcessError,
)


# What there should be


def ppm(reservation: str | None) -> int:
    """Bandwidth on one CPU; 0 for a plain flavor and for none at all."""
    if reservation in (None, PLAIN):
        return 0
    return Reservation.parse(reservation).ppm


def held(now: str, host: str = 'A', *, old: str | None = None,
         status: str = 'ACTIVE', runs: bool = True, disk: str = KEPT
         ) -> State:  # fmt: skip
    """Return the state of a server with this reservation, or PLAIN.

    :param old: in a move: that of the source, which is host A
    """
    total = collections.Counter({host: ppm(now)}) + collections.Counter(
        {'A': ppm(old)}
    )

    def slot(reservation: str, plain: str) -> str:
        return plain if reservation == PLAIN else operations.on_cpus(
            reservation, 1
        )  # fmt: skip

    kernel = NONE
    if runs:
        kernel = f'no reservation on {host}'
        if now != PLAIN:
            kernel = f'{operations.on_cpus(now, 1)} of {host}'
    return State(
        status=status,
        host=host,
        placement=operations.placed({host: ppm(now)}, {'A': ppm(old)}),
        claims=operations.amounts(total),
        record=operations.slots(
            slot(now, NONE), old=None if old is None else slot(old, PLAIN)
        ),
        kernel=kernel,
        disk=disk,
    )


OFFLOADED = State('SHELVED_OFFLOADED', record=operations.on_cpus(SMALL, 0))
# A dead host gives nothing back until it is alive again.
_BOTH = f'{ppm(SMALL)} on A, {ppm(SMALL)} on B'
# From microversion 2.95 on, an evacuated server is not started.
EVACUATED = held(SMALL, 'B', status='SHUTOFF', runs=False, disk=AS_IMAGE)
WHILE_DEAD = dataclasses.replace(EVACUATED, placement=_BOTH, claims=_BOTH)
NEW = held(SMALL, disk=AS_IMAGE)


class Do(NamedTuple):
    """A method of the test with its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def __call__(self, test: 'OperationsTest') -> str | None:
        """Do it; returns the outcome where it is not DONE."""
        return operator.methodcaller(self.method, *self.arguments)(test)


def do(method: str, *arguments: Any) -> Do:
    """Return an action."""
    return Do(method, arguments)


def ask(method: str, status: str = 'ACTIVE') -> Do:
    """Return a request to Nova: a method of the SDK, and where it leads."""
    return do('ask', method, status)


@dataclasses.dataclass(frozen=True)
class Step:
    """An operation, which is a row of the table.

    :ivar during: its state between its first request and its end
    """

    name: str
    do: Do
    after: State
    outcome: str = operations.DONE
    during: State | None = None
    end: Do | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """Operations on one server, one after the other.

    :ivar flavor: reservation of the flavor that the server has first, or
        PLAIN; None: there is no server yet
    """

    steps: tuple[Step, ...]
    flavor: str | None = SMALL
    hint: str | None = None
    host: str = FIRST

    @property
    def start(self) -> State:
        """The state before the first step."""
        if self.flavor is None:
            return NOTHING
        return held(self.hint or self.flavor)


def _life() -> list[Case]:
    running = held(SMALL)
    return [
        Case((
            Step('Create', do('create'), NEW),
        ), None),
        Case((
            Step('Create with a hint', do('create', HINT),
                 held(HINT, disk=AS_IMAGE)),
        ), None),
        Case((
            Step('Create two at once, each', do('create_two'), NEW),
        ), None),
        Case((
            Step('Create on a forced host', do('create', None, SECOND), NEW),
        ), None),
        Case((
            Step('Create two of an anti-affinity group, each',
                 do('create_apart'), NEW, 'done, on two hosts'),
        ), None),
        Case((
            Step('Create what no host can take', do('create_too_much'),
                 State('ERROR'), LATER),
        ), None),
        Case((
            Step('Stop', ask('stop_server', 'SHUTOFF'),
                 held(SMALL, status='SHUTOFF', runs=False)),
            Step('Start', ask('start_server'), running),
        )),
        Case((
            Step('Pause', ask('pause_server', 'PAUSED'),
                 held(SMALL, status='PAUSED')),
            Step('Unpause', ask('unpause_server'), running),
        )),
        Case((Step('Soft reboot', do('reboot', 'SOFT'), running),)),
        Case((Step('Hard reboot', do('reboot', 'HARD'), running),)),
        Case((Step('Rebuild from the same image', do('rebuild'), NEW),)),
        Case((Step('Snapshot', do('snapshot'), running),)),
        Case((
            Step('Shelve and offload',
                 ask('shelve_server', 'SHELVED_OFFLOADED'), OFFLOADED),
            Step('Unshelve on another host', do('unshelve', 'B'),
                 held(SMALL, 'B')),
        )),
    ]  # fmt: skip


def _move(name: str, request: Do, old: str, new: str, host: str, end: str
          ) -> Step:  # fmt: skip
    """A resize or migration that is confirmed or reverted."""
    confirmed = end == 'confirm'
    return Step(
        f'{name}, {"confirmed" if confirmed else "reverted"}',
        request,
        held(new, host) if confirmed else held(old),
        during=held(new, host, old=old, status='VERIFY_RESIZE'),
        end=ask(f'{end}_server_resize'),
    )


def _resizes() -> list[Case]:
    return [
        Case((
            _move(f'Resize {kind} on {where}', do('resize', new, host), old,
                  new, host, end),
        ), old)
        for kind, old, new in (
            ('to a larger reservation', SMALL, LARGE),
            ('to a smaller reservation', LARGE, SMALL),
            ('to a plain flavor', SMALL, PLAIN),
            ('from a plain flavor', PLAIN, SMALL),
        )
        for where, host in (('the same host', 'A'), ('another host', 'B'))
        for end in ('confirm', 'revert')
    ]  # fmt: skip


def _other_moves() -> list[Case]:
    migrate = ask('migrate_server', 'VERIFY_RESIZE')
    hinted = 'Resize of a server with a hint'
    return [
        Case((
            _move(f'{hinted}', do('resize', LARGE, 'A'), HINT, LARGE, 'A',
                  'revert'),
        ), hint=HINT),
        Case((
            _move(f'{hinted}', do('resize', LARGE, 'A'), HINT, LARGE, 'A',
                  'confirm'),
            _move('Resize back to the flavor of the hint',
                  do('resize', SMALL, 'A'), LARGE, HINT, 'A', 'confirm'),
        ), hint=HINT),
        *(
            Case((
                _move('Cold migration', migrate, SMALL, SMALL, 'B', end),
            ))
            for end in ('confirm', 'revert')
        ),
        Case((
            _move('Cold migration of a server with a hint', migrate, HINT,
                  HINT, 'B', 'confirm'),
        ), hint=HINT),
        Case((
            Step('Stop, to be resized', ask('stop_server', 'SHUTOFF'),
                 held(SMALL, status='SHUTOFF', runs=False)),
            Step('Resize of a stopped server on another host, confirmed',
                 do('resize', LARGE, 'B'),
                 held(LARGE, 'B', status='SHUTOFF', runs=False),
                 during=held(LARGE, 'B', old=SMALL, status='VERIFY_RESIZE',
                             runs=False),
                 end=ask('confirm_server_resize', 'SHUTOFF')),
            Step('Start of a server that was resized', ask('start_server'),
                 held(LARGE, 'B')),
        )),
    ]  # fmt: skip


def _refused() -> list[Case]:
    return [
        Case((Step(name, request, held(SMALL), LATER),))
        for name, request in (
            ('Suspend', do('refuse', ['cannot be saved'], 'suspend')),
            ('Rescue', do('refuse', ['no second root disk'], 'rescue', {})),
            (
                'Live migration',
                do(
                    'refuse',
                    # Of the host that is asked; of the scheduler after that.
                    ['use cold migration', 'No valid host'],
                    'os-migrateLive',
                    {'host': None, 'block_migration': 'auto'},
                ),
            ),
            ('Resize to what no host can take', do('resize_too_much')),
        )
    ]


def _ends() -> list[Case]:
    migrate = ask('migrate_server', 'VERIFY_RESIZE')
    return [
        Case((Step('Delete', do('remove'), NOTHING),)),
        Case((
            Step('Delete of a server that waits for a confirmation', migrate,
                 NOTHING,
                 during=held(SMALL, 'B', old=SMALL, status='VERIFY_RESIZE'),
                 end=do('remove')),
        )),
        # The last: a host dies.
        Case((
            Step('Evacuate from a dead host, which comes back',
                 do('evacuate'), EVACUATED, during=WHILE_DEAD,
                 end=do('bring_back')),
            Step('Start after an evacuation', ask('start_server'),
                 held(SMALL, 'B', disk=AS_IMAGE)),
        ), host=SECOND),
    ]  # fmt: skip


CASES = (*_life(), *_resizes(), *_other_moves(), *_refused(), *_ends())
#: Rows of the table, in their order.
NAMES = tuple(step.name for case in CASES for step in case.steps)


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class OperationsTest(test_moves.DiskTestBase):
    """Each case is a test; the test methods are made from CASES, below."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        operations.FOUND.unlink(missing_ok=True)

    def setUp(self):
        self.assertEqual([*HOSTS], second.alive())
        super().setUp()
        self.servers = []
        # Of each server: host -> A or B.
        self.letters = {}
        self.flavors = {}
        self.providers = {
            each.id: each.name
            for each in self.cloud.placement.resource_providers()
        }

    def follow(self, case):
        """Do the steps of a case, and look after each."""
        before = NOTHING
        if case.flavor is not None:
            self.create(case.hint, case.host, case.flavor)
            for server in self.servers:
                self.write(server, MARK)
                self.run_in(server, 'sync')
            before = self.settle(case.start)
            self.assertEqual(case.start, before)
        for step in case.steps:
            before = self.take_step(step, before)

    def take_step(self, step, before):
        """Do a step and note its row.

        :returns: the state after it
        """
        outcome = step.do(self) or operations.DONE
        during = None
        if step.end is not None:
            during = self.settle(step.during)
            step.end(self)
        after = self.settle(step.after)
        row = Row(step.name, outcome, before, during, after)
        known = operations.load(operations.FOUND)
        operations.save(operations.FOUND, operations.add(known, row, NAMES))
        wanted = Row(step.name, step.outcome, before, step.during, step.after)
        self.assertEqual(
            dataclasses.asdict(wanted), dataclasses.asdict(row), step.name
        )
        if not NOTING:
            self.assert_in_manual(row)
        return after

    def assert_in_manual(self, row):
        """The manual has this row."""
        committed = {
            each.operation: each
            for each in operations.load(operations.COMMITTED)
        }
        told = operations.differences(committed.get(row.operation), row)
        self.assertEqual(
            [],
            told,
            f'"{operations.COMMAND}" writes the table of the manual anew: '
            f'see its difference to {operations.COMMITTED}, and commit it',
        )

    # What there is

    def settle(self, wanted):
        """Wait until each server has the wanted state.

        :returns: the states; of the first server with another one
        """
        for server in self.servers:
            found = self._settle(server, wanted)
            if found != wanted:
                return found
            if ' of ' in found.kernel:
                self.assert_real_time(self.container(server))
        return wanted

    def _settle(self, server, wanted):
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                found = self.see(server)
                if found == wanted or time.monotonic() > deadline:
                    return found
            except _UNSETTLED:
                # A container that goes, or a disk that is unmounted.
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def see(self, server):
        """Return the state of a server."""
        try:
            found = self.cloud.compute.get_server(server.id)
            status, host = found.status, found.compute_host
        except sdk_exceptions.NotFoundException:
            status, host = NONE, None
        own, move = self.placed(server)
        slots = self.slots(server)
        return State(
            status=status,
            host=self.letter(server, host) if host else NONE,
            placement=operations.placed(
                self.lettered(server, own), self.lettered(server, move)
            ),
            claims=self.claims(server),
            record=self.tell_slots(slots),
            kernel=self.kernel(server, slots.get(record.KEY)),
            disk=self.disk(server, host),
        )

    def letter(self, server, host):
        """Return A for the host that the server was on first, else B."""
        first = self.letters.setdefault(server.id, host)
        return 'A' if host == first else 'B'

    def lettered(self, server, amounts):
        return {self.letter(server, host): amount
                for host, amount in amounts.items()}  # fmt: skip

    def placed(self, server):
        """Return the allocations: host -> ppm.

        :returns: of the server, and of its migrations
        """
        moves = world.select(
            'nova_cell1',
            'SELECT uuid FROM migrations WHERE instance_uuid = %s',
            server.id,
        )
        own = self._allocated(server.id)
        return own, sum(
            (self._allocated(each) for each in moves), collections.Counter()
        )

    def _allocated(self, consumer):
        answer = self.cloud.placement.get(
            f'/allocations/{consumer}', microversion='1.39'
        )
        self.assertEqual(200, answer.status_code, answer.text)
        found = collections.Counter()
        for provider, held_there in answer.json()['allocations'].items():
            amount = held_there['resources'].get(base.RESOURCE_CLASS, 0)
            if amount:
                found[self.providers[provider]] += amount
        return found

    def claims(self, server):
        """Put the changes of the trackers since the beginning into words.

        Allocations of other servers of the test are left out.
        """
        missing = {}
        for host in HOSTS:
            was, now = self.before.hosts[host], world.stats(host)
            missing[host] = sum(was.free.values()) - sum(now.free.values())
            if was.host_free is not None:
                # Where the kernel sums over the host, both sums go down.
                self.assertEqual(
                    was.host_free - now.host_free, missing[host], host
                )
        for other in self.servers:
            if other.id != server.id:
                for held_there in self.placed(other):
                    for host, amount in held_there.items():
                        missing[host] -= amount
        # Also a negative amount is told: too much was given back.
        return operations.amounts(
            self.lettered(
                server,
                {host: amount for host, amount in missing.items() if amount},
            )
        )

    def slots(self, server):
        """Return the server's slots: key -> text."""
        keys = (record.KEY, servers.NEW, servers.OLD)
        found = world.select(
            'nova_cell1',
            "SELECT CONCAT(`key`, ' ', value) FROM instance_system_metadata "
            'WHERE deleted = 0 AND instance_uuid = %s '
            'AND `key` IN (%s, %s, %s)',
            server.id,
            *keys,
        )
        return dict(each.split(' ', 1) for each in found)

    def tell_slots(self, slots):
        """Put the slots into words."""

        def tell(text):
            if text is None or text == PLAIN:
                return text
            rec = record.Record.decode(text)
            return operations.on_cpus(rec.request.reservation, len(rec.cpus))

        return operations.slots(
            tell(slots.get(record.KEY)) or NONE,
            old=tell(slots.get(servers.OLD)),
            new=tell(slots.get(servers.NEW)),
        )

    def kernel(self, server, text):
        """Put the kernel's reservations on each host into words.

        :param text: the record that the server runs with, if it has one
        """
        words = []
        for host in second.alive():
            found = container.Container.on(host, server.id)
            if found is None:
                continue
            letter, reserved = self.letter(server, host), found.held()
            if not reserved.runtime_us:
                words.append(f'no reservation on {letter}')
                continue
            cpus = found.cpus()
            words.append(f'{operations.on_cpus(reserved, len(cpus))} of '
                         f'{letter}')  # fmt: skip
            wanted = record.Record.decode(text).cpus if text else ()
            if list(wanted) != cpus:
                words.append(f'CPUs {cpus}, and {[*wanted]} in the record')
        return ', '.join(words) or NONE

    def disk(self, server, host):
        """Put into words whether the mark is on the root disk.

        :param host: that of the server; None if it has none
        """
        command = 'cat /root/written'
        if container.Container.of(server.id) is not None:
            text = self.run_in(server, f'{command} 2>/dev/null || true')
            return KEPT if text == MARK else AS_IMAGE
        instances = {FIRST: world.INSTANCES, SECOND: world.SECOND_INSTANCES}
        file = instances.get(host, pathlib.Path()) / server.id / 'disk'
        if not file.exists():
            return NONE
        done = subprocess.run(
            ['debugfs', '-R', command, file],
            check=False,
            capture_output=True,
            text=True,
        )
        return KEPT if done.stdout.strip() == MARK else AS_IMAGE

    # Operations

    @property
    def server(self):
        """The only one of a test."""
        (server,) = self.servers
        return server

    def host(self, letter):
        """Return the host of a letter."""
        first = self.letters[self.server.id]
        (other,) = {*HOSTS} - {first}
        return first if letter == 'A' else other

    @contextlib.contextmanager
    def only(self, letter):
        """Allow servers to be scheduled to one host only."""
        (other,) = {*HOSTS} - {self.host(letter)}
        (service,) = self.cloud.compute.services(
            binary='nova-compute', host=other
        )
        self.cloud.compute.disable_service(service.id)
        try:
            yield
        finally:
            self.cloud.compute.enable_service(service.id)

    def flavor_name(self, reservation):
        """Return the flavor of a reservation, the same in all of a test."""
        if reservation == PLAIN:
            return base.PLAIN
        if reservation not in self.flavors:
            self.flavors[reservation] = self.rt_flavor(reservation)
        return self.flavors[reservation]

    def flavor_id(self, reservation):
        return self.cloud.compute.find_flavor(
            self.flavor_name(reservation), ignore_missing=False
        ).id

    def reach(self, server, status):
        """Wait for a status; why it does not come is in the actions."""
        try:
            return super().reach(server, status)
        except self.failureException as err:
            raise self.failureException(
                f'{err}; actions: {self._actions(server)}'
            ) from err

    def create(self, hint=None, host=None, flavor=SMALL):
        """Create a server, on whichever host unless one is forced."""
        more = {} if host is None else {'availability_zone': f'nova:{host}'}
        server = self.request_server(
            self.flavor_name(flavor), hint=hint, **more
        )
        self.take([server])
        if host is not None:
            found = self.cloud.compute.get_server(server.id)
            self.assertEqual(host, found.compute_host)

    def take(self, requested):
        """Wait until servers run, and follow them from now on."""
        for server in requested:
            self.servers.append(self.reach(server, 'ACTIVE'))

    def create_two(self):
        self.request_server(self.flavor_name(SMALL), min_count=2, max_count=2)
        found = [
            each
            for each in self.cloud.compute.servers()
            if each.name.startswith(f'e2e-{self._testMethodName}'[:50])
        ]
        for server in found:
            self.addCleanup(self.delete, server)
        self.assertEqual(2, len(found), [each.name for each in found])
        self.take(found)

    def create_apart(self):
        group = self.cloud.compute.create_server_group(
            name=f'e2e-{self._testMethodName}'[:60],
            policies=['anti-affinity'],
        )
        self.addCleanup(self.cloud.compute.delete_server_group, group)
        for _ in range(2):
            self.take([
                self.request_server(
                    self.flavor_name(SMALL),
                    scheduler_hints={'group': group.id},
                )
            ])  # fmt: skip
        found = {each.compute_host for each in self.servers}
        self.assertEqual({*HOSTS}, found)
        return 'done, on two hosts'

    def create_too_much(self):
        server = self.request_server(self.flavor_name(TOO_MUCH))
        self.wait_for(
            lambda: self.cloud.compute.get_server(server.id).status == 'ERROR',
            'it is not refused',
        )
        self.servers.append(server)
        fault = self.cloud.compute.get_server(server.id).fault
        self.assertIn('No valid host', fault['message'])
        return LATER

    def ask(self, method, status):
        """Ask Nova for something, and wait for a status."""
        getattr(self.cloud.compute, method)(self.server)
        self.reach(self.server, status)

    def reboot(self, kind):
        first = self.container(self.server).pid
        self.cloud.compute.reboot_server(self.server, kind)
        self.reach(self.server, 'ACTIVE')
        self.assertNotEqual(first, self.container(self.server).pid)

    def rebuild(self):
        image = self.cloud.image.find_image(base.IMAGE, ignore_missing=False)
        self.cloud.compute.rebuild_server(self.server, image.id)
        self.reach(self.server, 'ACTIVE')

    def snapshot(self):
        first = self.container(self.server).pid
        image = self.cloud.compute.create_server_image(
            self.server, f'e2e-{self._testMethodName}'[:60]
        )
        self.addCleanup(self.cloud.image.delete_image, image.id)
        self.reach(self.server, 'ACTIVE')
        self.wait_for(
            lambda: self.cloud.image.get_image(image.id).status == 'active',
            'there is no image',
        )
        self.assertEqual(first, self.container(self.server).pid)

    def unshelve(self, letter):
        with self.only(letter):
            self.cloud.compute.unshelve_server(self.server)
            self.reach(self.server, 'ACTIVE')

    def resize(self, reservation, letter):
        flavor = self.flavor_id(reservation)
        with self.only(letter):
            self.cloud.compute.resize_server(self.server, flavor)
            self.reach(self.server, 'VERIFY_RESIZE')

    def remove(self):
        self.delete(self.server)

    def evacuate(self):
        """Kill the second host, and evacuate the server.

        The server has to be on that host.
        """
        self.assertEqual(SECOND, self.host('A'))
        self.addCleanup(self.bring_back)
        base.lab('kill')
        self.cloud.compute.update_service_forced_down(self._second())
        self.ask('evacuate_server', EVACUATED.status)

    def bring_back(self):
        base.lab('up')
        self.wait_for(
            lambda: self._second().state == 'up', 'it does not come back'
        )

    def _second(self):
        (service,) = self.cloud.compute.services(
            binary='nova-compute', host=SECOND
        )
        return service

    # What is refused

    def resize_too_much(self):
        flavor = {'flavorRef': self.flavor_id(TOO_MUCH)}
        return self.refuse(['No valid host'], 'resize', flavor)

    def refuse(self, words, action, value=None):
        """Ask, and expect a refusal with one of these texts as reason.

        :returns: the outcome
        """
        first = self.container(self.server).pid
        known = self._actions(self.server)
        answer = self.cloud.compute.post(
            f'/servers/{self.server.id}/action',
            json={action: value},
            microversion=_DETAILS,
        )
        outcome = LATER
        if answer.status_code >= 400:
            outcome = f'refused with {answer.status_code}'
            self.assertTrue(
                any(word in answer.text for word in words), answer.text
            )
        else:
            self._wait_for_reason(known, words)
        self.reach(self.server, 'ACTIVE')
        self.assertEqual(first, self.container(self.server).pid)
        return outcome

    def _wait_for_reason(self, known, words):
        def told():
            now = self._actions(self.server)
            texts.update({key: now[key] for key in now.keys() - known.keys()})
            return any(word in str(texts) for word in words)

        texts = {}
        try:
            self.wait_for(told, '')
        except self.failureException:
            self.fail(f'none of {words} in {texts}')

    def _actions(self, server):
        """Return a server's actions: request -> name and errors' details."""
        top = f'/servers/{server.id}/os-instance-actions'
        found = {}
        for action in self._get(top).get('instanceActions', ()):
            request = action['request_id']
            one = self._get(f'{top}/{request}').get('instanceAction', {})
            errors = [
                f'{event["event"]}: {event.get("details")}'
                for event in one.get('events', ())
                if event['result'] == 'Error'
            ]
            found[request] = (action['action'], errors)
        return found

    def _get(self, path):
        answer = self.cloud.compute.get(path, microversion=_DETAILS)
        return answer.json() if answer.status_code == 200 else {}


def _add(number: int, case: Case) -> None:
    def test(self):
        self.follow(case)

    name = re.sub(r'\W+', '_', case.steps[0].name.lower())
    # In their order.
    setattr(OperationsTest, f'test_{number:02}_{name}', test)


for _number, _case in enumerate(CASES, 1):
    _add(_number, _case)
