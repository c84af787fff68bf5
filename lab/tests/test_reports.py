# SPDX-License-Identifier: Apache-2.0
"""What operators see of a server's life: each place tells the same story."""

import collections
import json
import subprocess
import time
import urllib.parse
import urllib.request

from lab import catalog, paths
from lab.tests import base

ETC = paths.ETC / 'nova'
FILES = ('nova.conf', 'nova-database.conf', 'nova-rt-conductor.conf')
#: Seconds between two samples, and two scrapes.
INTERVAL_S = 10
BUSY_S = 3 * INTERVAL_S


def manage(*words):
    """Run nova-rt-manage; its exit code, and what it says as JSON."""
    done = subprocess.run(
        [
            paths.VENV / 'bin' / 'nova-rt-manage',
            *(f'--config-file={ETC / name}' for name in FILES),
            *words, '-f', 'json',
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError as err:
        raise AssertionError(f'{words}: {done.stdout}{done.stderr}') from err


def query(expression):
    """Ask Prometheus: the value of each series, by its labels."""
    url = 'http://127.0.0.1:9090/api/v1/query?query='
    with urllib.request.urlopen(url + urllib.parse.quote(expression)) as found:
        result = json.load(found)['data']['result']
    return {
        frozenset(each['metric'].items()): float(each['value'][1])
        for each in result
    }


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

    def grown(self, before, **numbers):
        now = self.events()
        return all(
            now[kind] - before[kind] == number
            for kind, number in numbers.items()
        )

    def test_the_same_everywhere(self):
        # Events of the tests before are written and scraped by then.
        time.sleep(INTERVAL_S + 3)
        before = self.events()
        server = self.create('rt.small', network=True)
        found = self.container(server)
        (cpu,) = self.record(server).cpus
        self.probe(server).hog('rr', 1, seconds=BUSY_S)
        time.sleep(BUSY_S)

        self.assert_used(server, cpu)
        self.assert_listed(server, cpu)

        runtime = found.cgroup / 'cpu.rt_runtime_us'
        if not runtime.exists():
            self.skipTest('written for the files of cgroup v1')
        damages = self.damage(server, runtime)
        self.assert_agree(server, '20000/100000')
        self.delete(server)

        kinds = [
            'claimed', 'applied', *['drifted', 'repaired'] * damages,
            'released',
        ]  # fmt: skip
        self.wait_for(
            lambda: self.history(server) == kinds, 'not the history', 30
        )
        self.wait_for(
            lambda: self.grown(before, **collections.Counter(kinds)),
            'Prometheus counts otherwise',
        )
        self.assertEqual((0, []), manage('server', 'list'))

    def damage(self, server, runtime):
        """Damage until Prometheus sees it; how often that was needed.

        The check comes once a minute, and Prometheus reads once in
        INTERVAL_S. A check may come first. The next one is a minute away
        then, so that the second damage is seen.
        """
        drifted = f'nova_rt_server_drifted{{server="{server.id}"}}'
        for times in (1, 2):
            runtime.write_text('10000')
            seen = False

            def repaired(times=times):
                nonlocal seen
                seen = seen or 1 in query(drifted).values()
                return self.history(server).count('repaired') == times

            self.wait_for(repaired, 'not repaired', 120)
            if seen:
                self.wait_for(
                    lambda: 0 in query(drifted).values(), 'still damaged'
                )
                return times
        self.fail('no drift seen')

    def assert_used(self, server, cpu):
        """A fifth of a CPU, by the database and by Prometheus."""
        code, rows = manage('metrics', 'show', server.id, '--since', '1h')
        self.assertEqual(0, code)
        self.assertEqual({cpu}, {row['CPU'] for row in rows})
        for row in rows:
            self.assertAlmostEqual(
                200 * row['Span s'], row['Reserved ms'], delta=20
            )
        most = max(row['Used ms'] / row['Span s'] for row in rows)
        self.assertAlmostEqual(200, most, delta=20)
        labels = f'{{server="{server.id}",cpu="{cpu}"}}'
        (reserved,) = query(
            f'nova_rt_server_cpu_reserved_ratio{labels}'
        ).values()
        self.assertEqual(0.2, reserved)
        (used,) = query(
            'max_over_time(rate(nova_rt_server_cpu_used_seconds_total'
            f'{labels}[20s])[1m:5s])'
        ).values()
        self.assertAlmostEqual(0.2, used, delta=0.03)

    def assert_listed(self, server, cpu):
        code, (row,) = manage('server', 'list')
        self.assertEqual(
            (0, server.id, 'applied', str(cpu), 200_000),
            (code, row['Server'], row['State'], row['CPUs'],
             row['Total ppm']),
        )  # fmt: skip
        code, hosts = manage('host', 'list')
        (host,) = (
            each for each in hosts if each['Host'] == self.host_of(server)
        )
        self.assertEqual((0, 200_000, 1), (
            code, host['Reserved ppm'], host['Servers'],
        ))  # fmt: skip


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
        self.wait_for(lambda: self.audit() == (0, []), 'not clean', 90)
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
        self.wait_for(lambda: self.audit() == (0, []), 'not clean again', 90)

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
