# SPDX-License-Identifier: Apache-2.0
"""Reports of a server's life to operators: each place tells the same story."""

import collections
import json
import signal
import subprocess
import time

from lab import catalog, paths, process, services
from lab.tests import base
from lab.tests.reports import manage, query, run_manage

#: Prometheus of the lab scrapes every few seconds.
BUSY_S = 10
#: Nova's periodic tasks come once a minute.
PATIENCE_S = 180
#: Servers that are asked for until Nova works again.
TRIES = 5


class StoryTest(base.LabTestCase):
    """Create, overload, damage, repair, delete."""

    def events(self):
        """Numbers of the exporter, by kind."""
        found = query('nova_rt_events_total')
        return {dict(labels)['kind']: value for labels, value in found.items()}

    def history(self, server):
        code, rows = manage('server', 'history', server.id)
        self.assertEqual(0, code)
        return [row['Event'] for row in reversed(rows)]

    def settled_events(self):
        """Event counts that hold all that happened before this call."""
        begin = time.time()
        self.wait_for(
            lambda: any(
                written > begin
                for written in query(
                    'nova_rt_compute_last_write_timestamp_seconds'
                ).values()
            ),
            'nova-rt-compute writes no counters',
            PATIENCE_S,
        )
        return self.events()

    def grown(self, before, numbers):
        """Whether Prometheus counts so many more of each kind."""
        now = self.events()
        return all(
            now.get(kind, 0) - before.get(kind, 0) == number
            for kind, number in numbers.items()
        )

    def test_the_same_everywhere(self):
        before = self.settled_events()
        server = self.create('rt.small', network=True)
        found = self.container(server)
        (cpu,) = self.record(server).cpus
        self.probe(server).hog('rr', 1, seconds=BUSY_S)
        time.sleep(BUSY_S)
        self.assert_used(server, cpu, self.used_at_last_s(found))
        self.wait_for(lambda: self.listed(server, cpu), 'not listed')

        runtime = found.cgroup / 'cpu.rt_runtime_us'
        if not runtime.exists():
            self.skipTest('written for the files of cgroup v1')
        self.damage(server, runtime)
        self.assert_agree(server, '20000/100000')
        self.delete(server)

        kinds = ['claimed', 'applied', 'drifted', 'repaired', 'released']
        self.wait_for(
            lambda: self.history(server) == kinds,
            'not the history',
            PATIENCE_S,
        )
        self.wait_for(
            lambda: self.grown(before, collections.Counter(kinds)),
            'Prometheus counts otherwise',
            PATIENCE_S,
        )
        self.wait_for(
            lambda: manage('server', 'list') == (0, []), 'servers are listed'
        )

    def damage(self, server, runtime):
        """Damage, while nova-compute cannot repair before it is seen."""
        drifted = f'nova_rt_server_drifted{{server="{server.id}"}}'
        compute = services.table()['nova-compute'].running()
        compute.kill(signal.SIGSTOP)
        try:
            runtime.write_text('10000')
            self.wait_for(
                lambda: 1 in query(drifted).values(), 'no drift', PATIENCE_S
            )
        finally:
            compute.kill(signal.SIGCONT)
        self.wait_for(
            lambda: 'repaired' in self.history(server),
            'not repaired',
            PATIENCE_S,
        )
        self.wait_for(
            lambda: 0 in query(drifted).values(), 'still damaged', PATIENCE_S
        )

    def used_at_last_s(self, found):
        """Wait until a container rests; return the time that it has used."""
        used = [0.0, -1.0]

        def rests():
            time.sleep(1)
            used.append(found.used_ns() / 10**9)
            return used[-1] - used[-2] < 0.01

        self.wait_for(rests, 'the load does not end', PATIENCE_S)
        self.assertGreater(used[-1], BUSY_S / 20)
        # The fifth of a CPU that is reserved, and what else it does.
        self.assertLess(used[-1], BUSY_S / 5 + 1)
        return used[-1]

    def assert_used(self, server, cpu, used_s):
        """Prometheus has counted what the kernel has."""
        labels = f'{{server="{server.id}",cpu="{cpu}"}}'

        def counted():
            values = query(f'nova_rt_server_cpu_used_seconds_total{labels}')
            # What rests uses a little all the same.
            return abs(sum(values.values()) - used_s) < 0.2

        self.wait_for(counted, f'it is not {used_s} s', PATIENCE_S)
        (reserved,) = query(
            f'nova_rt_server_cpu_reserved_ratio{labels}'
        ).values()
        self.assertEqual(0.2, reserved)

    def listed(self, server, cpu):
        """Whether the commands list this server and nothing else."""
        code, rows = manage('server', 'list')
        self.assertEqual(0, code)
        wanted = (server.id, 'held', str(cpu), 200_000)
        names = ('Server', 'State', 'CPUs', 'Total ppm')
        code, hosts = manage('host', 'list')
        self.assertEqual(0, code)
        host = self.host_of(server)
        return [tuple(row[name] for name in names) for row in rows] == [
            wanted
        ] and [
            (row['Reserved ppm'], row['Servers'])
            for row in hosts
            if row['Host'] == host
        ] == [(200_000, 1)]


class HistoryTest(base.LabTestCase):
    """Lives without nova-rt-conductor, over restarts of the message bus."""

    # The service of the first host is damaged.
    on_first = True

    def test_a_whole_life_while_the_conductor_is_down(self):
        table = services.table()
        conductor, rabbit = table['nova-rt-conductor'], table['rabbitmq']
        conductor.stop()
        self.addCleanup(conductor.ensure)
        server = self.create('rt.small')
        kinds = ['claimed', 'applied', *self.repair(server)]
        self.restart(rabbit)
        self.cloud.compute.resize_server(server, self.large())
        self.reach(server, 'VERIFY_RESIZE')
        self.cloud.compute.confirm_server_resize(server)
        self.reach(server, 'ACTIVE')
        self.delete(server)
        self.wait_for(
            lambda: manage('server', 'list') == (0, []), 'servers are listed'
        )
        # Without a word of the queue, nothing has come.
        self.assertEqual(1, run_manage('server', 'history', server.id)
                         .returncode)  # fmt: skip
        self.restart(rabbit)
        conductor.ensure()
        found = self.wait_for_end(server)
        self.assertEqual(kinds, found[: len(kinds)])
        resized = collections.Counter(found[len(kinds) :])
        # On its host it has two for a while, on another host one on each.
        self.assertIn(
            resized,
            (
                collections.Counter(
                    ['added', 'applied', 'dropped', 'released']
                ),
                collections.Counter(
                    ['claimed', 'applied', 'released', 'released']
                ),
            ),
        )
        code, rows = manage('server', 'reservations', server.id)
        self.assertEqual(0, code)
        self.assertEqual(2, len(rows), rows)
        self.assertTrue(all(row['From'] and row['To'] for row in rows), rows)
        # Whatever was delivered twice: it would be there by now.
        time.sleep(10)
        self.assertEqual(found, self.kinds(server))

    def large(self):
        return self.cloud.compute.find_flavor('rt.large', ignore_missing=False)

    def restart(self, rabbit):
        """Kill the message bus, and wait until Nova works again."""
        running = rabbit.running()
        running.kill(signal.SIGKILL)
        running.kill_session()
        self.assertEqual([], process.wait_gone([running], 10))
        rabbit.ensure()
        # A request that came before all services had noticed may be lost.
        for _ in range(TRIES):
            server = self.request_server(base.PLAIN)
            try:
                self.reach(server, 'ACTIVE')
            except AssertionError:
                continue
            self.delete(server)
            return
        self.fail('Nova does not work any more')

    def repair(self, server):
        """Damage a container, and wait until it is repaired.

        :returns: the kinds of events that this makes
        """
        found = self.container(server)
        runtime = found.cgroup / 'cpu.rt_runtime_us'
        if not runtime.exists():
            return []
        before = str(found.held())
        runtime.write_text('1000')
        self.assertNotEqual(before, str(found.held()))
        self.wait_for(
            lambda: str(found.held()) == before, 'not repaired', PATIENCE_S
        )
        return ['drifted', 'repaired']

    def kinds(self, server):
        done = run_manage('server', 'history', server.id)
        if done.returncode:
            return []
        return [row['Event'] for row in reversed(json.loads(done.stdout))]

    def wait_for_end(self, server):
        """Wait until the history has the end of a server.

        :returns: the kinds of its events
        """
        self.wait_for(
            lambda: self.kinds(server)[-1:] == ['released'],
            lambda: f'no end: {self.kinds(server)}',
            PATIENCE_S,
        )
        return self.kinds(server)


class AuditTest(base.LabTestCase):
    """All sources of a real cloud agree; what is damaged is found."""

    def audit(self, *words):
        return manage('audit', *words)

    def allocate(self, server, ppm):
        """Write an allocation of other bandwidth into Placement."""
        path = f'/allocations/{server.id}'
        found = self.cloud.placement.get(path, microversion='1.28').json()
        for provider in found['allocations'].values():
            provider['resources'][base.RESOURCE_CLASS] = ppm
            del provider['generation']
        answer = self.cloud.placement.put(
            path, json=found, microversion='1.28'
        )
        self.assertEqual(204, answer.status_code, answer.text)

    def test_damaged_allocation(self):
        server = self.create('rt.small')
        self.create('rt.large')
        self.wait_for(lambda: self.audit() == (0, []), 'not clean', PATIENCE_S)
        self.allocate(server, 100_000)
        code, rows = self.audit('--dry-run')
        self.assertEqual(1, code)
        self.assertEqual({server.id}, {row['Server'] for row in rows})
        self.assertEqual(
            100_000, self.allocations(server)[base.RESOURCE_CLASS]
        )
        self.audit('--repair')
        self.assertEqual(
            200_000, self.allocations(server)[base.RESOURCE_CLASS]
        )
        self.wait_for(
            lambda: self.audit() == (0, []), 'not clean again', PATIENCE_S
        )

    def test_flavor_specs_make_a_flavor(self):
        """The printed commands, run as they are."""
        name = 'e2e-specs'
        printed = subprocess.run(
            [
                paths.VENV / 'bin' / 'nova-rt-manage', 'flavor', 'specs',
                '--reservation', '20000/100000', '--vcpus', '1',
                '--enforcement', 'limit', '--ram', str(catalog.RAM_MB),
                '--disk', str(catalog.DISK_GB), '--name', name,
            ],
            stdout=subprocess.PIPE, text=True, check=True,
        ).stdout  # fmt: skip
        subprocess.run(
            ['sh', '-euc', printed], check=True, stdout=subprocess.DEVNULL
        )
        flavor = self.cloud.compute.find_flavor(name, ignore_missing=False)
        self.addCleanup(self.cloud.compute.delete_flavor, flavor.id)
        self.assert_agree(self.create(name), '20000/100000')
