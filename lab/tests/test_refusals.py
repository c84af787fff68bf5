# SPDX-License-Identifier: Apache-2.0
"""What cannot be had is refused with words and numbers, and leaves nothing."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import pathlib

from lab.measure import container
from lab.tests import base
from nova_rt import admission, exception
from nova_rt.request import Request

PERIOD_US = 100_000

BAD_FLAVORS = {
    'word': {'rt:reservation': 'abc'},
    'one number': {'rt:reservation': '5'},
    'no runtime': {'rt:reservation': '0/1000'},
    'negative': {'rt:reservation': '-1/5'},
    'runtime over period': {'rt:reservation': '3000/2000'},
    'float': {'rt:reservation': '1/1e9'},
    'three numbers': {'rt:reservation': '1400/2000/3'},
    'huge': {'rt:reservation': '9' * 40 + '/' + '9' * 40},
    'spaces': {'rt:reservation': ' 1400 / 2000 '},
    'digits of another script': {'rt:reservation': '١٤٠٠/٢٠٠٠'},
    'unknown key': {'rt:reservaton': '1400/2000'},
    'policy': {'rt:reservation': '1400/2000', 'rt:policy': 'fair'},
    'priority 0': {'rt:reservation': '1400/2000', 'rt:priority': '0'},
    'priority 100': {'rt:reservation': '1400/2000', 'rt:priority': '100'},
    'enforcement': {'rt:reservation': '1400/2000', 'rt:enforcement': 'maybe'},
}

# On rt.small, 20000/100000.
BAD_HINTS = {
    'word': 'abc',
    'one number': '5',
    'no runtime': '0/1000',
    'negative': '-1/5',
    'runtime over period': '3000/2000',
    'float': '1/1e9',
    'three numbers': '1400/2000/3',
    'huge': '9' * 40 + '/' + '9' * 40,
    'spaces': ' 1400 / 2000 ',
    'digits of another script': '١٤٠٠/٢٠٠٠',
    'list': ['10000/100000', '20000/100000'],
    'nested object': {'runtime': 10000},
    'number': 10000,
    'more than the flavor': '30000/100000',
}


class BadInputTest(base.LabTestCase):
    """A 400 with words, through the real API."""

    def test_flavors(self):
        name = self.flavor({})
        for title, specs in BAD_FLAVORS.items():
            with self.subTest(title):
                answer = self.set_specs(name, specs)
                self.assert_refused(answer, 'rt:')

    def test_hints(self):
        for title, hint in BAD_HINTS.items():
            with self.subTest(title):
                answer = self.post_server('rt.small', hint)
                self.assert_refused(answer, 'rt_reservation')

    def test_hint_on_a_plain_flavor(self):
        answer = self.post_server(base.PLAIN, '10000/100000')
        self.assert_refused(answer, 'real-time flavor')

    def assert_refused(self, answer, words):
        self.assertEqual(400, answer.status_code, answer.text)
        message = answer.json()['badRequest']['message']
        self.assertIn(words, message)
        self.assertNotIn('Traceback', message)

    def post_server(self, flavor, hint):
        return self.cloud.compute.post(
            '/servers',
            json={
                'server': {
                    'name': 'e2e-bad-hint',
                    'imageRef': self.cloud.image.find_image(
                        base.IMAGE, ignore_missing=False
                    ).id,
                    'flavorRef': self.cloud.compute.find_flavor(
                        flavor, ignore_missing=False
                    ).id,
                    'networks': 'none',
                },
                'os:scheduler_hints': {'rt_reservation': hint},
            },
            microversion='2.86',
        )


class RefusalTestCase(base.LabTestCase):
    """Servers that do not come to be."""

    def refused(self, flavor):
        """Ask for a server, see that nothing of it is there; the fault."""
        before = self.look()
        server = self.settled(self.request_server(flavor, network=True))
        self.assertEqual('ERROR', server.status)
        self.assertIn('fault', server.to_dict())
        self.assert_nothing_of(server, before)
        return server.fault['message']

    def assert_nothing_of(self, server, before):
        """The server is known by name; all else is as it was."""

        def gone():
            now = dataclasses.replace(self.look(), servers=before.servers)
            return now == before

        self.wait_for(gone, f'something is left of {server.id}', 30)
        self.assertEqual({}, self.allocations(server))

    def settled(self, server):
        """Wait until a server is ACTIVE or in ERROR."""
        self.wait_for(
            lambda: (
                self.cloud.compute.get_server(server.id).status
                in ('ACTIVE', 'ERROR')
            ),
            'neither ACTIVE nor ERROR',
            base.ACTIVE_S,
        )
        return self.cloud.compute.get_server(server.id)

    def largest(self):
        """The largest bandwidth that one CPU has free, in ppm."""
        free = self.stats()
        largest = max(free.free.values())
        if free.host_free is not None:
            largest = min(largest, free.host_free)
        return largest

    def flavor_of(self, ppm):
        """A flavor of so much bandwidth on one CPU, about."""
        runtime_us = ppm // 10
        return self.rt_flavor(f'{runtime_us}/{PERIOD_US}'), runtime_us * 10

    def room(self, flavor):
        """How many servers of a flavor fit, as the pure function says."""
        found = self.cloud.compute.find_flavor(
            flavor, get_extra_specs=True, ignore_missing=False
        )
        request = Request.from_flavor(found.extra_specs, found.vcpus)
        free = self.stats().capacity
        for room in range(100):
            try:
                admission.place_many(
                    free, request.vcpus, request.reservation.ppm, room + 1
                )
            except exception.InsufficientBandwidth:
                return room
        self.fail('room for 100')


class OverCommitmentTest(RefusalTestCase):
    """What does not fit."""

    def test_does_not_fit(self):
        free = self.largest()
        flavor, ppm = self.flavor_of(free * 6 // 10)
        fits = self.create(flavor)
        left = self.largest()

        fault = self.refused(flavor)

        self.assertIn(str(ppm), fault)
        self.assertIn(str(left), fault)
        self.assert_agree(fits, f'{ppm // 10}/{PERIOD_US}')

    def test_more_cpus_than_any_host(self):
        vcpus = len(self.before.stats.free) + 1
        fault = self.refused(self.rt_flavor('1000/100000', vcpus=vcpus))
        self.assertIn(f'each of {vcpus} CPU(s)', fault)

    def test_at_the_same_time(self):
        free = self.largest()
        flavor, _ = self.flavor_of(free * 4 // 10)
        room = self.room(flavor)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            servers = list(
                pool.map(
                    lambda _: self.request_server(flavor), range(room + 2)
                )
            )
        states = sorted(self.settled(server).status for server in servers)
        self.assertEqual(['ACTIVE'] * room + ['ERROR'] * 2, states)
        for server in servers:
            rec = self.record(server)
            found = container.Container.of(server.id)
            if found:
                self.assertEqual(list(rec.cpus), found.cpus())
            else:
                self.assertEqual({}, self.allocations(server))


class KernelRefusesTest(RefusalTestCase):
    """The kernel has the last word, and its numbers reach the user."""

    def test_bandwidth_taken_by_another(self):
        held = self.taken_ppm()
        with self.stranger(self.ceiling_ppm() - held - 50_000):
            fault = self.refused('rt.small')
        self.assertIn('EINVAL', fault)
        self.assertIn('20000/100000', fault)

    def test_partition_lost_its_bandwidth(self):
        partition = self.partition()
        runtime = partition / 'cpu.rt_runtime_us'
        before = runtime.read_text()
        self.addCleanup(runtime.write_text, before)
        # What its groups hold cannot be taken away.
        period = int((partition / 'cpu.rt_period_us').read_text())
        self.write(runtime, -(-self.taken_ppm() * period // 10**6))
        server = self.create('rt.small')
        self.assert_agree(server, '20000/100000')

    @contextlib.contextmanager
    def stranger(self, ppm):
        """A control group in the partition that holds bandwidth."""
        group = self.partition() / 'e2e-stranger'
        group.mkdir()
        try:
            (group / 'cpu.rt_runtime_us').write_text('0')
            (group / 'cpu.rt_period_us').write_text('1000000')
            self.write(group / 'cpu.rt_runtime_us', ppm)
            yield
        finally:
            (group / 'cpu.rt_runtime_us').write_text('0')
            group.rmdir()

    def write(self, path, number):
        """Write what must fit; a group's bandwidth is back late."""

        def written():
            try:
                path.write_text(str(number))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return False
            return True

        self.wait_for(written, f'EINVAL for {number} in {path}', 5)

    def partition(self) -> pathlib.Path:
        partition = container.hierarchies()['cpu'] / 'machine'
        if not (partition / 'cpu.rt_runtime_us').exists():
            self.skipTest('written for the files of cgroup v1')
        return partition

    def ceiling_ppm(self):
        held = container.held(self.partition())
        return held.runtime_us * 10**6 // held.period_us

    def taken_ppm(self):
        taken = 0
        for path in self.partition().glob('*/cpu.rt_runtime_us'):
            held = container.held(path.parent)
            taken += -(-held.runtime_us * 10**6 // held.period_us)
        return taken
