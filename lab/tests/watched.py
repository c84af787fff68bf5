# SPDX-License-Identifier: Apache-2.0
"""Tests during which the kernel is watched.

As an operator after a fault, they wait, audit and repair. Repairs by the audit
are counted, not hidden.
"""

import collections
import dataclasses
import json
import os
import signal
import time

from lab import (
    accounts,
    config,
    faults,
    paths,
    process,
    services,
    setup_steps,
    world,
)
from lab.measure import course, sampler
from lab.tests import base
from lab.tests.reports import manage

#: They take long, and most of them stop services.
ASKED_FOR = os.environ.get('NOVA_RT_TEST_FAULTS') == '1'
COMPUTE = 'nova-compute'
MORTAL = paths.ETC / 'nova' / 'mortal_compute.py'
#: File that tells nova-compute where to die.
AT = accounts.HOME / 'die-at'
#: Nova's audits come once a minute.
AUDIT_S = 150
#: Nova's sync_power_state_interval of the lab, and what follows.
NOTICED_S = 120
#: The lab's instance_delete_interval, twice. Nova then removes what a server
#: that was deleted in a migration has left on the other host.
REMOVED_S = 60
#: Nova has forgotten a task that has not ended by then.
FORGOTTEN_S = 20
RESERVATION = '5000/100000'


class WatchedTestCase(base.LabTestCase):
    """The kernel is sampled from the beginning to the end of each test.

    :cvar damages: whether the test itself takes bandwidth from groups
    """

    damages = False
    # Its service and its libvirtd are what is broken.
    on_first = True

    def setUp(self):
        if not ASKED_FOR:
            self.skipTest('NOVA_RT_TEST_FAULTS=1 runs it')
        super().setUp()
        self.counts = collections.Counter()
        self.steady = []
        name = f'{type(self).__name__}.{self._testMethodName}'
        self.file = faults.FIGURES / f'{name}.json'
        self.watch = self.enterContext(
            sampler.running(faults.FIGURES / f'{name}.samples')
        )
        self.addCleanup(self.check_course)
        self.flavor_name = self.rt_flavor(RESERVATION)

    def check_course(self):
        """No CPU was above its capacity, no server lost its reservation."""
        seen = self.watch.end()
        first = seen.states[0][1]
        # What is free, and what was held, whoever did: the capacity.
        allowed = [
            dataclasses.replace(budget, ppm=budget.ppm + budget.held(first))
            for stats in self.before.hosts.values()
            for budget in course.budgets(stats.free, stats.host_free)
        ]
        over, drops = seen.over(allowed), seen.drops()
        self.counts['over-commitments'] = len(over)
        self.counts['losses'] = 0 if self.damages else len(drops)
        self.counts['samples'] = seen.samples
        self.counts['longest gap, ms'] = seen.longest_ns // 1_000_000
        said = ', '.join(f'{v} {k}' for k, v in self.counts.items())
        print(f'\n{self.id()}: {said}\n  {seen}', flush=True)
        self.file.write_text(json.dumps(self.counts, indent=1) + '\n')
        self.assertEqual([], over)
        if not self.damages:
            self.assertEqual([], drops)
        for group in self.steady:
            changes = seen.changes(group)
            self.assertEqual(2, len(changes), changes)
            self.assertIn('gone', changes[1])

    # Services

    def restart(self, name, kill=False):
        """Restart a service; kill: with everything that it has started."""
        service = services.table()[name]
        if kill:
            running = service.running()
            running.kill(signal.SIGKILL)
            running.kill_session()
            # What is dying would be taken for what is up.
            self.assertEqual([], process.wait_gone([running], 10))
            self.counts['kills'] += 1
        else:
            service.stop()
        service.ensure()
        self.counts['restarts'] += 1

    def compute_up(self, service=None):
        """Start nova-compute, unless it runs, and wait until it serves."""
        service = service or services.table()[COMPUTE]
        service.ensure()
        setup_steps.hosts()

    def mortal(self, methods):
        """Run a nova-compute that can be killed at these methods."""
        config.put(MORTAL, (paths.PROGRAMS / MORTAL.name).read_text())
        self.arm('')
        words = [paths.VENV / 'bin' / 'python', '-P', MORTAL, AT]
        options = accounts.command(services.UNIT)[1:]
        command = services.UNIT.around(
            map(str, [*words, *methods, '--', *options])
        )
        service = dataclasses.replace(
            services.table()[COMPUTE], command=command
        )
        self.addCleanup(self.compute_up)
        self.compute_up(service)
        return service

    def arm(self, text):
        config.put(AT, text, 0o666)

    def wait_dead(self, service, seconds):
        """Wait until it has killed itself, and end its children.

        :returns: whether it did
        """
        running = service.running()
        deadline = time.monotonic() + seconds
        while running is None or running.alive():
            if time.monotonic() > deadline:
                self.arm('')
                return False
            time.sleep(0.05)
        # As systemd ends what is left of a service.
        running.kill_session()
        self.counts['kills'] += 1
        return True

    # Servers

    def bystander(self):
        """Make a server that is to notice nothing.

        :returns: the server
        """
        server = self.create(self.flavor_name)
        self.assert_agree(server, RESERVATION)
        self.keep(server)
        return server

    def keep(self, server):
        """Require that a server holds the same until its deletion."""
        group = self.container(server).cgroup
        self.steady.append(str(group.relative_to(group.parents[1])))

    def wait_status(self, server, status):
        """Wait until Nova has noticed the change of a server.

        :returns: the server
        """
        self.wait_for(
            lambda: self.cloud.compute.get_server(server.id).status == status,
            f'Nova does not notice, it is not {status}',
            NOTICED_S,
        )
        return self.cloud.compute.get_server(server.id)

    def settled(self, server, seconds=FORGOTTEN_S):
        """Wait until no task of Nova holds a server.

        :param seconds: after these Nova has forgotten the task; it is reset
        :returns: the server's status
        """
        deadline = time.monotonic() + seconds
        while True:
            found = self.cloud.compute.get_server(server.id)
            if not found.task_state:
                return found.status
            if time.monotonic() > deadline:
                self.counts['forgotten'] += 1
                self.cloud.compute.reset_server_state(server, 'error')
                return 'ERROR'
            time.sleep(0.5)

    def revive(self, server):
        """Start a server by force, as its user or an operator does."""
        self.counts['revived'] += 1
        self.cloud.compute.reset_server_state(server, 'active')
        self.cloud.compute.reboot_server(server.id, 'HARD')
        self.reach(server, 'ACTIVE')

    def assert_same(self, server):
        """Kernel, record and Placement have the same for a server."""
        self.assertEqual(
            self.assert_held(server).total_ppm,
            self.allocations(server)[base.RESOURCE_CLASS],
        )

    def assert_held(self, server):
        """Kernel and record have the same for a server.

        :returns: the record
        """
        rec = self.record(server)
        found = self.container(server)
        self.assertEqual(str(rec.request.reservation), str(found.held()))
        self.assertEqual(list(rec.cpus), found.cpus())
        self.assert_real_time(found)
        return rec

    # What is left

    def assert_clean(self, before):
        """All is as before, by the audit's repair if need be."""
        left = world.left(self.cloud, before)
        deadline = time.monotonic() + REMOVED_S
        while 'files' in left and time.monotonic() < deadline:
            left = world.left(self.cloud, before)
        if left.keys() & {'allocations', 'stats', 'hosts'}:
            self.counts['repaired by the audit'] += 1
            print(f'  audit: {manage("audit", "--repair")[1]}', flush=True)
            left = world.left(self.cloud, before)
        if left:
            self.counts['leaks'] += len(left)
        self.assertEqual({}, left)

    def assert_audited(self):
        """The audit is clean, if need be after its repair."""
        deadline = time.monotonic() + AUDIT_S
        while (found := manage('audit')) != (0, []):
            if time.monotonic() > deadline:
                manage('audit', '--repair')
                self.counts['repaired by the audit'] += 1
                self.assertEqual((0, []), manage('audit'), found)
                return
            time.sleep(2)
