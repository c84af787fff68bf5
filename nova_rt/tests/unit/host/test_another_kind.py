# SPDX-License-Identifier: Apache-2.0
"""A back end of another kind: no files of control groups, no priorities.

It is as a scheduler in BPF might be, with a table of its own for which tasks
have which share. Its abstract methods are all that a new kind has to have.
"""

import dataclasses
import errno
import os
import pathlib

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import cpus, files, host, probe
from nova_rt.host.capability import Capability, Refusal
from nova_rt.host.interface import Interface, Share, Usage
from nova_rt.host.protocol import Backend
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.tests.fixtures import kernel
from nova_rt.tests.fixtures.requests import ask
from nova_rt.tests.unit.host.base import PID, make_record

#: Of a CPU, in ppm: what this scheduler gives to containers.
ROOM = 800_000

TABLE = Interface(
    'toy-table', 'none', Enforcement.GUARANTEE, Scope.CPU
)  # fmt: skip


class ToyScheduler:
    """The kernel's side of it.

    :ivar running: the numbers of processes that are containers
    :ivar table: number -> (share, CPUs)
    """

    def __init__(self):
        self.running = set()
        self.table = {}
        self.limits = {}
        self.tests = 0
        self.writes = 0

    def put(self, pid, share, on):
        for cpu in on:
            if self.used(cpu, exclude=pid) + share.cost_ppm > ROOM:
                raise Refusal(errno.EBUSY, f'no room on CPU {cpu}')
        self.table[pid] = share, on
        self.writes += 1

    def used(self, cpu, exclude=None):
        return sum(
            share.cost_ppm
            for pid, (share, on) in self.table.items()
            if pid != exclude and cpu in on
        )


#: One machine has one.
SCHEDULER = ToyScheduler()


class ToyBackend(Backend[int]):
    """Its containers are numbers."""

    def __init__(self, files):
        self._files = files

    @classmethod
    def detect(cls, files):
        return cls(files)

    def look(self, partition):
        ceiling = dict.fromkeys(cpus.read_online(self._files), ROOM)
        found = Capability(
            TABLE, Capacity(ceiling), pathlib.Path(partition or 'any'), {},
            True,
        )  # fmt: skip
        return self.refresh(found)

    def self_test(self, found):
        SCHEDULER.tests += 1

    def refresh(self, found):
        left = {
            cpu: ppm - SCHEDULER.used(cpu)
            for cpu, ppm in found.ceiling.cpus.items()
        }
        return dataclasses.replace(found, left=left)

    def describe(self, found, cpus):
        return f'{[SCHEDULER.used(cpu) for cpu in cpus]} are used'

    def find_container(self, found, pid):
        if pid not in SCHEDULER.running:
            raise OSError(errno.ENOENT, f'{pid} is no container')
        return pid

    def hold(self, found, container, rec):
        if self.find_difference(container, rec):
            share = Share.from_reservation(rec.request.reservation)
            SCHEDULER.put(container, share, rec.cpus)

    def find_difference(self, container, rec):
        wanted = Share.from_reservation(rec.request.reservation), rec.cpus
        held = SCHEDULER.table.get(container)
        return None if held == wanted else f'expected {wanted}, found {held}'

    def limit_tasks(self, container, most):
        SCHEDULER.limits[container] = most

    def read_usage(self, container):
        _, on = SCHEDULER.table.get(container, (None, ()))
        return {cpu: Usage(1, 0, container) for cpu in on}


class AnotherKindTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.useFixture(
            fixtures.MockPatchObject(probe, 'BACKENDS', (ToyBackend,))
        )
        scheduler = ToyScheduler()
        self.useFixture(
            fixtures.MonkeyPatch(f'{__name__}.SCHEDULER', scheduler)
        )
        scheduler.running.add(PID)
        self.scheduler = scheduler
        # It has CPUs; control groups and processes are nowhere.
        machine = self.useFixture(kernel.make('none'))
        nowhere = files.Files('/nowhere', '/nowhere', str(machine.files.sys))
        self.useFixture(fixtures.MockPatchObject(nowhere, 'check_helper'))
        self.call = self.useFixture(
            fixtures.MockPatchObject(nowhere, '_call')
        ).mock
        self.host = host.Host(
            cpu_set='1-3', smt=True, reserved_ppm=100_000, partition=None,
            files=nowhere,
        )  # fmt: skip

    def tearDown(self):
        self.call.assert_not_called()
        super().tearDown()

    def test_cost(self):
        """As many methods as the manual says (contributor/changes)."""
        self.assertEqual(10, len(Backend.__abstractmethods__))

    def test_start(self):
        self.assertEqual('toy-table', self.host.look().name)
        self.assertEqual(0, self.scheduler.tests)
        self.assertTrue(self.host.start().prepared)
        self.assertEqual(1, self.scheduler.tests)
        offered = dict.fromkeys((1, 2, 3), ROOM - 100_000)
        self.assertEqual(offered, self.host.capacity().cpus)

    def test_apply(self):
        self.host.start()
        rec = make_record(cpus=(1, 3))
        self.assertIn('found None', self.host.check(PID, rec))
        self.assertEqual({}, self.host.read_usage(PID))
        for _ in range(2):
            self.host.apply(PID, rec)
        self.assertEqual(1, self.scheduler.writes)
        self.assertIsNone(self.host.check(PID, rec))
        self.assertEqual(
            {PID: (Share(600, 1000), (1, 3))}, self.scheduler.table
        )
        usage = dict.fromkeys((1, 3), Usage(1, 0, PID))
        self.assertEqual((None, usage, rec), self.host.observe(PID, rec))
        self.assertEqual((2,), self.host.place([], ask(1, 500_000)))
        self.assertEqual(100_000, self.host.free([]).cpus[1])
        self.scheduler.running.add(8)
        err = self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, 8, rec
        )
        self.assertTrue(err.verdict)
        self.assertIn('[600000, 600000] are used', str(err))
        self.assertIn('is no container', self.host.check(os.getpid(), rec))

    def test_container_is_found_once(self):
        self.host.start()
        found = []

        def find(backend, capability, pid):
            found.append(pid)
            return pid

        self.useFixture(
            fixtures.MockPatchObject(ToyBackend, 'find_container', find)
        )
        for call in (
            self.host.apply, self.host.check, self.host.observe,
            self.host.give_missing_policy,
        ):  # fmt: skip
            call(PID, make_record())
            self.assertEqual([PID], found, call)
            found.clear()

    def test_what_it_has_nothing_of(self):
        self.host.start()
        self.host.limit_tasks(PID, 9)
        self.assertEqual({PID: 9}, self.scheduler.limits)
        self.host.take_groups(PID)
        self.host.sweep_task_limits()
        self.assertFalse(self.host.give_missing_policy(PID, make_record()))
        self.assertIsNone(self.host.find_outside(PID))
        self.assertIsNone(self.host.find_usage(PID))
        self.assertIsNone(self.host.read_usages())
        self.assertEqual([], self.host.reclaim([PID]))
