# SPDX-License-Identifier: Apache-2.0
"""nova-rt-compute is killed between any two of its steps.

A few steps always; all of them on request::

    python -m lab exec env NOVA_RT_TEST_KILLS=all \\
        stestr --test-path=./lab/tests run --serial test_kills
"""

import os
import re
import unittest

from lab import namespace, second
from lab.tests import base, test_moves, watched
from lab.tests.reports import manage

ALL = os.environ.get('NOVA_RT_TEST_KILLS') == 'all'
ONLY = os.environ.get('NOVA_RT_TEST_KILL_AT', '')
#: A step that has not come by then does not come.
DEATH_S = 60

_MANAGER = 'nova_rt.compute.manager:RTComputeManager.'
_TRACKER = 'nova_rt.compute.resource_tracker:RTResourceTracker.'
_DRIVER = 'nova_rt.virt.libvirt.driver:RTLibvirtDriver.'
_HELD = 'nova_rt.tracking.reservations:Reservations.'
_RUNNING = 'nova_rt.virt.libvirt.running:RunningContainers.'
_TASKS = 'nova_rt.host.tasks:'
_CHANGES = 'nova_rt.compute.changes:Changes.'

# What has just been done -> the method, before or after which that is so.
CREATE = {
    'asked for': (_MANAGER + '_build_and_run_instance', 'before'),
    'CPUs claimed, record not saved': (_HELD + 'claim', 'after'),
    'record saved': (_TRACKER + '_set_instance_host_and_node', 'after'),
    'claimed': (_TRACKER + 'instance_claim', 'after'),
    'disk made': (_DRIVER + '_create_image', 'after'),
    'root mounted': (_DRIVER + '_create_domain_setup_lxc', 'after'),
    'container started': (_RUNNING + 'apply', 'before'),
    'reservation written, tasks ordinary': (_TASKS + 'give_policy', 'before'),
    'reservation applied': (_RUNNING + 'apply', 'after'),
    'built, not saved': (_DRIVER + 'spawn', 'after'),
}
DELETE = {
    'delete asked for': (_DRIVER + 'destroy', 'before'),
    'container destroyed': (_DRIVER + 'destroy', 'after'),
    'claim released': (_HELD + 'release', 'after'),
}
REBOOT = {
    'stopped for a reboot': (_DRIVER + '_destroy', 'after'),
    'root mounted for a reboot': (
        _DRIVER + '_create_domain_setup_lxc', 'after',
    ),
    'container started in a reboot': (_RUNNING + 'apply', 'before'),
    'reservation applied in a reboot': (_RUNNING + 'apply', 'after'),
}  # fmt: skip
RESIZE = {
    'resize claimed': (_TRACKER + 'resize_claim', 'after'),
    'before the disk moves': (
        _DRIVER + 'migrate_disk_and_power_off', 'before',
    ),
    'disk moved': (_DRIVER + 'migrate_disk_and_power_off', 'after'),
    'before it starts resized': (_DRIVER + 'finish_migration', 'before'),
    'started resized': (_DRIVER + 'finish_migration', 'after'),
}  # fmt: skip
CONFIRM = {
    'before confirming': (_DRIVER + 'confirm_migration', 'before'),
    'source removed': (_DRIVER + 'confirm_migration', 'after'),
    'confirmed, not saved': (_TRACKER + 'drop_move_claim_at_source', 'after'),
}
REVERT = {
    'before reverting': (_DRIVER + 'finish_revert_migration', 'before'),
    'root mounted in a revert': (
        _DRIVER + '_create_domain_setup_lxc', 'after',
    ),
    'started reverted': (_DRIVER + 'finish_revert_migration', 'after'),
}  # fmt: skip
GO_BACK = {
    'before it goes back': (_DRIVER + 'destroy', 'before'),
    'removed where it was': (_DRIVER + 'destroy', 'after'),
    'given up where it was': (_TRACKER + 'drop_move_claim_at_dest', 'after'),
}
EVACUATE = {
    'evacuation asked for': (
        _MANAGER + '_do_rebuild_instance_with_claim', 'before',
    ),
    'evacuation claimed': (_TRACKER + 'rebuild_claim', 'after'),
    'disk taken over': (_DRIVER + '_create_image', 'after'),
    'root mounted in an evacuation': (
        _DRIVER + '_create_domain_setup_lxc', 'after',
    ),
    'container started in an evacuation': (_RUNNING + 'apply', 'before'),
    'reservation applied in an evacuation': (_RUNNING + 'apply', 'after'),
    'evacuated, not saved': (_DRIVER + 'spawn', 'after'),
    'evacuated, not said to be here': (
        _TRACKER + 'finish_evacuation', 'before',
    ),
    'said to be here': (_TRACKER + 'finish_evacuation', 'after'),
}  # fmt: skip
ARRIVE = {
    'left its old host': (_MANAGER + '_finish_resize_helper', 'before'),
    'saved with what it has here': (_DRIVER + 'finish_migration', 'before'),
    'started at its new host': (_DRIVER + 'finish_migration', 'after'),
}
CHANGE = {
    'change claimed': (_TRACKER + 'rt_begin_change', 'after'),
    'change allocated': (_CHANGES + 'allocate', 'after'),
    'change written': (_RUNNING + 'change', 'after'),
    'change not recorded': (_TRACKER + 'rt_end_change', 'before'),
    'change recorded': (_TRACKER + 'rt_end_change', 'after'),
}
SHORT = {
    'record saved', 'root mounted', 'container started', 'change written',
}  # fmt: skip
STEPS = (
    CREATE, DELETE, REBOOT, RESIZE, CONFIRM, REVERT, GO_BACK, EVACUATE,
    ARRIVE, CHANGE,
)  # fmt: skip
METHODS = sorted({method for steps in STEPS for method, _ in steps.values()})


class KillTestBase(watched.WatchedTestCase):
    """One server lives beside the others."""

    def each(self, steps, live):
        """Live a server's life once for each step, and die there."""
        chosen = {
            name: step
            for name, step in steps.items()
            if (ALL or name in SHORT) and re.search(ONLY, name)
        }
        if not chosen:
            self.skipTest('NOVA_RT_TEST_KILLS=all runs it')
        self.other = self.bystander()
        self.service = self.mortal(METHODS)
        for name, (method, when) in chosen.items():
            with self.subTest(name):
                before = self.look()
                self.counts['tries'] += 1
                live(lambda m=method, w=when: self.arm(f'{m} {w}'))
                self.assert_same(self.other)
                self.assert_clean(before)
                print(f'  survived: {name}', flush=True)
        self.assert_audited()

    def die(self):
        """Wait for the death, and start it again."""
        died = self.wait_dead(self.service, DEATH_S)
        self.compute_up(self.service)
        self.assertTrue(died, 'the step did not come')


class EndingTestBase(KillTestBase, test_moves.DiskTestBase):
    """Nobody but the next service goes on."""

    def end(self, steps, move, action):
        """Kill the service that confirms or reverts a move.

        :param move: makes a server and moves it
        """

        def live(arm):
            server = move()
            self.reach(server, 'VERIFY_RESIZE')
            arm()
            action(server)
            self.die()
            self.reach(server, 'ACTIVE')
            self.assert_same(server)
            self.assert_written(server, 'before')
            self.delete(server)

        self.each(steps, live)


class KillTest(EndingTestBase):
    """On one host."""

    def test_create(self):
        def live(arm):
            arm()
            server = self.request_server(self.flavor_name)
            self.die()
            self.delete(server)

        self.each(CREATE, live)

    def test_delete(self):
        def live(arm):
            server = self.create(self.flavor_name)
            arm()
            self.cloud.compute.delete_server(server.id)
            self.die()
            self.delete(server)

        self.each(DELETE, live)

    def test_reboot(self):
        def live(arm):
            server = self.create(self.flavor_name)
            arm()
            self.cloud.compute.reboot_server(server.id, 'HARD')
            self.die()
            # Nova goes on with what it was doing; else a user does.
            if self.settled(server) != 'ACTIVE':
                self.revive(server)
            self.assert_same(server)
            self.delete(server)

        self.each(REBOOT, live)

    def test_change(self):
        """It grows, and it shrinks; the conductor asks again."""

        def live(arm):
            server = self.create(self.flavor_name)
            for reservation in '8000/100000', '3000/100000':
                arm()
                manage('reservation', 'set', server.id, reservation)
                self.die()
                self.wait_for(
                    lambda: self.is_applied(server),
                    'the change is not applied',
                )
                rec = self.assert_held(server)
                self.assertEqual(reservation, str(rec.request.reservation))
            self.delete(server)

        self.each(CHANGE, live)

    def is_applied(self, server):
        _, found = manage('reservation', 'show', server.id)
        return found['Condition'] == 'Applied'

    # Moves

    def resize(self, server):
        target = self.cloud.compute.find_flavor(
            self.larger, ignore_missing=False
        )
        self.cloud.compute.resize_server(server, target)

    def prepare_resize(self):
        """Skip where servers cannot be resized."""
        self.larger = self.rt_flavor('10000/100000')
        server = self.create(self.flavor_name)
        self.resize(server)
        if self.settled(server) != 'VERIFY_RESIZE':
            self.delete(server)
            self.skipTest('real-time servers cannot be resized')
        self.cloud.compute.confirm_server_resize(server)
        self.reach(server, 'ACTIVE')
        self.delete(server)

    def test_resize(self):
        self.prepare_resize()

        def live(arm):
            server = self.create(self.flavor_name)
            arm()
            self.resize(server)
            self.die()
            # Nova goes on with what it was doing; else an operator does.
            if self.settled(server) == 'ERROR':
                self.revive(server)
            rec = self.assert_held(server)
            held = self.allocations(server)[base.RESOURCE_CLASS]
            # The service has ended the move when it started.
            self.assertEqual(rec.total_ppm, held)
            self.delete(server)

        self.each(RESIZE, live)

    def resized(self):
        server = self.create(self.flavor_name)
        self.write(server, 'before')
        self.resize(server)
        return server

    def test_confirm(self):
        self.prepare_resize()
        confirm = self.cloud.compute.confirm_server_resize
        self.end(CONFIRM, self.resized, confirm)

    def test_revert(self):
        self.prepare_resize()
        revert = self.cloud.compute.revert_server_resize
        self.end(GO_BACK | REVERT, self.resized, revert)


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class SecondHostTestBase(KillTestBase):
    """Servers come from the second host to the first, which is killed."""

    on_first = False

    def create_on(self, host):
        server = self.request_server(
            self.flavor_name, availability_zone=f'nova:{host}'
        )
        return self.reach(server, 'ACTIVE')

    def bystander(self):
        server = self.create_on(namespace.HOST_NAME)
        self.keep(server)
        return server


class ArrivalTest(SecondHostTestBase, test_moves.DiskTestBase):
    """Only the start of the server by an operator ends the move."""

    def arrive(self, move):
        def live(arm):
            server = self.create_on(second.HOST)
            self.write(server, 'before')
            arm()
            move(server)
            self.die()
            self.settled(server)
            self.revive(server)
            self.assertEqual(namespace.HOST_NAME, self.host_of(server))
            self.assert_same(server)
            self.assert_written(server, 'before')
            self.delete(server)

        self.each(ARRIVE, live)

    def test_migration(self):
        self.arrive(self.cloud.compute.migrate_server)

    def test_resize(self):
        larger = self.cloud.compute.find_flavor(
            self.rt_flavor('10000/100000'), ignore_missing=False
        )
        self.arrive(lambda s: self.cloud.compute.resize_server(s, larger))


class MovedTest(SecondHostTestBase, EndingTestBase):
    """From one host to another, of which the first is killed."""

    def move_from(self, host):
        server = self.create_on(host)
        self.write(server, 'before')
        self.cloud.compute.migrate_server(server)
        return server

    def test_confirm(self):
        self.end(
            CONFIRM,
            lambda: self.move_from(namespace.HOST_NAME),
            self.cloud.compute.confirm_server_resize,
        )

    def test_revert_at_the_source(self):
        self.end(
            REVERT,
            lambda: self.move_from(namespace.HOST_NAME),
            self.cloud.compute.revert_server_resize,
        )

    def test_revert_at_the_destination(self):
        self.end(
            GO_BACK,
            lambda: self.move_from(second.HOST),
            self.cloud.compute.revert_server_resize,
        )


class EvacuationTest(SecondHostTestBase):
    """The second host is dead."""

    def second_service(self):
        (service,) = self.cloud.compute.services(
            binary='nova-compute', host=second.HOST
        )
        return service

    def bring_back(self):
        base.lab('up')
        self.wait_for(
            lambda: self.second_service().state == 'up',
            'the second host does not come back',
        )

    def test_evacuation(self):
        def live(arm):
            # "lab up" brings one back that cannot be killed.
            self.compute_up(self.service)
            server = self.create_on(second.HOST)
            base.lab('kill')
            try:
                self.evacuate(server, arm)
            finally:
                self.bring_back()
            self.assert_same(server)
            self.delete(server)

        self.each(EVACUATE, live)

    def evacuate(self, server, arm):
        """Take a server over, the second time if need be, and start it."""
        compute = self.cloud.compute
        compute.update_service_forced_down(self.second_service())
        arm()
        compute.evacuate_server(server)
        self.die()
        if self.settled(server) == 'ERROR':
            self.counts['evacuated again'] += 1
            compute.evacuate_server(server)
        self.wait_for(
            lambda: self.host_of(server) == namespace.HOST_NAME,
            'it is not evacuated',
        )
        if self.settled(server) != 'ACTIVE':
            compute.start_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_same(server)
