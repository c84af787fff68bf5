# SPDX-License-Identifier: Apache-2.0
"""Two compute hosts on one kernel, for a lab of ``lab up --computes 2``."""

import signal
import subprocess
import unittest

from lab import namespace, paths, second, second_machine, services, world
from lab.measure import container
from lab.tests import base
from lab.tests.reports import manage

FIRST, SECOND = namespace.HOST_NAME, second.HOST


class TwoComputesTestBase(base.LabTestCase):
    def setUp(self):
        self.assertEqual([FIRST, SECOND], second.alive())
        super().setUp()

    def _create_on(self, host, flavor, **more):
        server = self.request_server(
            flavor, availability_zone=f'nova:{host}', **more
        )
        return self.reach(server, 'ACTIVE')


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class TwoComputesTest(TwoComputesTestBase):
    """They are two for Nova, libvirt, the network and the kernel."""

    def _state(self):
        (found,) = self.cloud.compute.services(
            binary='nova-compute', host=SECOND
        )
        return found.state

    def _bring_back(self):
        base.lab('up')
        self.wait_for(lambda: self._state() == 'up', 'it does not come back')

    def test_capacities_are_disjoint(self):
        first, other = (world.stats(host) for host in (FIRST, SECOND))
        self.assertFalse(set(first.free) & set(other.free))
        if first.host_free is not None:
            # The kernel's own group, of which both have a part.
            top = container.hierarchies()['cpu']
            whole = container.held(top)
            parts = [
                container.held(top / name / 'machine') for name in ('', SECOND)
            ]
            ppm = sum(p.runtime_us * 10**6 // p.period_us for p in parts)
            self.assertLessEqual(
                ppm, whole.runtime_us * 10**6 // whole.period_us
            )

    def test_evacuation(self):
        servers = [
            self._create_on(SECOND, flavor)
            for flavor in (base.PLAIN, 'rt.small')
        ]
        self.addCleanup(self._bring_back)
        base.lab('kill')
        (service,) = self.cloud.compute.services(
            binary='nova-compute', host=SECOND
        )
        self.cloud.compute.update_service_forced_down(service)
        for server in servers:
            self.cloud.compute.evacuate_server(server)
        for server in servers:
            self.wait_for(
                lambda server=server: self.host_of(server) == FIRST,
                'it is not evacuated',
            )
            # Nova leaves the start to its owner.
            self.reach(server, 'SHUTOFF')
            self.cloud.compute.start_server(server)
            self.reach(server, 'ACTIVE')
            self.assertIn(server.id, container.domains_on(FIRST))
        # A host that comes back clears away what was taken from it.
        self._bring_back()
        self.wait_for(
            lambda: not container.domains_on(SECOND),
            'the servers are there twice',
        )

    def test_death_of_one(self):
        kept = self._create_on(FIRST, 'rt.small')
        lost = self._create_on(SECOND, 'rt.small')
        self.addCleanup(self._bring_back)
        base.lab('kill')
        self.assertEqual([FIRST], second.alive())
        self.assertEqual([], second_machine.processes())
        # What it leaves behind is on its disk alone.
        self.assertIsNone(container.Container.of(lost.id))
        self.assertEqual('20000/100000', str(self.container(kept).held()))
        self.assert_real_time(self.container(kept))
        self.wait_for(
            lambda: self._state() == 'down', 'Nova does not see it', 300
        )
        server = self._create_on(FIRST, 'rt.tiny')
        self.assertEqual(FIRST, self.host_of(server))
        self._bring_back()
        # As after a power cut: Nova finds that it does not run.
        self.wait_for(
            lambda: self.cloud.compute.get_server(lost.id).status == 'SHUTOFF',
            'Nova does not see that the server is off',
        )
        self.cloud.compute.start_server(lost.id)
        self.reach(lost, 'ACTIVE')
        self.assertEqual('20000/100000', str(self.container(lost).held()))


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class MovesTest(TwoComputesTestBase):
    """Moves that an operator or a script gets in the way of."""

    def setUp(self):
        super().setUp()
        self.server = self._create_on(SECOND, 'rt.micro')
        self.held = self.allocations(self.server)
        self.larger = self.cloud.compute.find_flavor(
            'rt.tiny', ignore_missing=False
        )

    def _resize(self):
        self.cloud.compute.resize_server(self.server, self.larger)
        self.reach(self.server, 'VERIFY_RESIZE')

    def _migration(self):
        return next(
            each
            for each in self.cloud.compute.migrations(
                instance_uuid=self.server.id
            )
        )

    def test_audit_while_the_source_is_held_up(self):
        """As the runbook of an interrupted resize says."""
        self._resize()
        self.assertEqual(FIRST, self.host_of(self.server))
        source = services.table()['nova-compute-2'].running()
        source.kill(signal.SIGSTOP)
        self.addCleanup(source.kill, signal.SIGCONT)
        self.cloud.compute.revert_server_resize(self.server)
        self.wait_for(
            lambda: self._migration().status == 'reverted',
            lambda: f'it is {self._migration().status}',
        )
        for words in ((), ('--repair',)):
            _, found = manage('audit', *words)
            self.assertNotIn('placement', [each['Source'] for each in found])
        source.kill(signal.SIGCONT)
        self.reach(self.server, 'ACTIVE')
        self.assertEqual(SECOND, self.host_of(self.server))
        self.assertEqual(self.held, self.allocations(self.server))
        self.wait_for_audit()

    def test_resize_as_soon_as_confirmed(self):
        flavors = [self.larger, self.cloud.compute.find_flavor('rt.micro')]
        for _ in range(3):
            for flavor, reservation in zip(
                flavors, ('10000/100000', '5000/100000'), strict=True
            ):
                self.cloud.compute.resize_server(self.server, flavor)
                self.reach(self.server, 'VERIFY_RESIZE')
                self.assertEqual(
                    reservation,
                    str(self.record(self.server).request.reservation),
                )
                self.assertEqual(
                    reservation, str(self.container(self.server).held())
                )
                self.cloud.compute.confirm_server_resize(self.server)
                self.reach(self.server, 'ACTIVE')
        self.wait_for_audit()


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class NoRoomTest(TwoComputesTestBase):
    """Changes without room on the first host, as their user sees them."""

    def setUp(self):
        super().setUp()
        self.server = self._create_on(FIRST, 'rt.tiny')
        stats = self.stats()[FIRST]
        free_ppm = stats.host_free or max(stats.free.values())
        flavor = self.rt_flavor(f'{free_ppm // 10 - 1000}/100000')
        self.other = self._create_on(FIRST, flavor)

    def _set(self, on_no_room):
        """Ask for more, and follow that as ``--wait`` does."""
        running = subprocess.Popen(
            [
                paths.BIN / 'openstack', 'rt', 'reservation', 'set', '--wait',
                '--on-no-room', on_no_room, self.server.id, '30000/100000',
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.wait)
        return running

    def assert_applied(self, running, *conditions):
        said = running.stderr.read()
        self.assertEqual(0, running.wait(), said)
        for each in (*conditions, 'Applied'):
            self.assertIn(each, said)
        rec = self.record(self.server)
        self.assertEqual('30000/100000', str(rec.request.reservation))
        held = self.container(self.server).held()
        self.assertEqual('30000/100000', str(held))
        self.assertEqual(
            300_000, self.allocations(self.server)['CUSTOM_RT_BANDWIDTH']
        )

    def test_defer(self):
        running = self._set('defer')
        self.wait_for(
            lambda: 'Deferred' in str(manage('reservation', 'show',
                                             self.server.id)),
            'it is not deferred',
        )  # fmt: skip
        self.delete(self.other)
        self.assert_applied(running, 'Deferred')
        self.assertEqual(FIRST, self.host_of(self.server))

    def test_migrate(self):
        self.assert_applied(self._set('migrate'), 'migrating from')
        self.assertEqual(SECOND, self.host_of(self.server))
        self.wait_for_audit()
