# SPDX-License-Identifier: Apache-2.0
"""The means of measuring, measured: rtprobe, percentiles, the picture."""

import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from lab import console, services
from lab.measure import container, distribution, network, rtprobe

PORT = 7007


class RtprobeTest(unittest.TestCase):
    """The service and its client, without a container."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = subprocess.Popen(
            [rtprobe.client(), 'serve'], stdout=subprocess.DEVNULL
        )
        cls.addClassCleanup(cls.service.wait)
        cls.addClassCleanup(cls.service.kill)
        cls.probe = rtprobe.Probe('127.0.0.1')
        cls.probe.wait(10)

    def test_work_costs_what_is_asked(self):
        before = _cpu_s(self.service.pid)
        for _ in range(10):
            answer, took_us = self.probe.ask('W', 20_000).split()
            self.assertEqual('done', answer)
            self.assertGreaterEqual(int(took_us), 20_000)
        used = _cpu_s(self.service.pid) - before
        self.assertAlmostEqual(0.2, used, delta=0.03)

    def test_runs_where_it_is_told(self):
        cpu = max(os.sched_getaffinity(0))
        self.probe.pin(cpu)
        self.assertEqual([cpu], self.probe.runs_as()[2])
        self.probe.pin(-1)
        everywhere = sorted(os.sched_getaffinity(self.service.pid))
        self.assertEqual(everywhere, self.probe.runs_as()[2])

    def test_loops_are_counted_and_end(self):
        running, before = map(int, self.probe.ask('U').split())
        self.assertEqual(0, running)
        self.probe.hog('other', seconds=60)
        began = time.monotonic()
        time.sleep(0.5)
        self.assertEqual('1', self.probe.ask('U').split()[0])
        self.probe.quiet()
        elapsed_us = (time.monotonic() - began) * 10**6
        running, after = map(int, self.probe.ask('U').split())
        self.assertEqual(0, running)
        self.assertGreater(after, before)
        self.assertLess(after - before, elapsed_us * 1.1)

    def test_refusals(self):
        for words in (
            'X', 'W', 'W x', 'W -1', f'W {10**30}', 'I I', 'A', 'A 99999',
            'H', 'H fair 1 0 1 1', 'H rr 100 0 1 1', 'H rr 1 0 1 65',
            'H rr 1 0 0 1', 'U 1', 'K 1', 'Ways 1',
        ):  # fmt: skip
            with (
                self.subTest(words),
                self.assertRaisesRegex(rtprobe.ProbeError, 'error usage'),
            ):
                self.probe.ask(*words.split())
        with self.assertRaisesRegex(rtprobe.ProbeError, 'setaffinity EINVAL'):
            self.probe.pin(1023)

    def test_garbage(self):
        draw = random.Random(1)
        letters = b'WIAHUK 0123456789-rothefif\0\n'
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.connect(('127.0.0.1', PORT))
            for _ in range(2000):
                sender.send(draw.randbytes(draw.randrange(1400)))
                words = draw.choices(letters, k=draw.randrange(300))
                # No real work: W with a long time would block the service.
                text = bytes(words).replace(b'W', b'').replace(b'H', b'')
                sender.send(b'%d ' % draw.randrange(10**9) + text)
        self.probe.ask('A', -1)
        self.assertIsNone(self.service.poll())

    def test_asked_twice_done_once(self):
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.settimeout(5)
            sender.connect(('127.0.0.1', PORT))
            for _ in range(2):
                sender.send(b'4711 H other 0 -1 60 1')
                self.assertEqual(b'4711 ok', sender.recv(200))
        self.assertEqual('1', self.probe.ask('U').split()[0])
        self.probe.quiet()

    def test_load(self):
        times = self.probe.load(rate=500, service_us=200, count=300, seed=1)
        self.assertEqual(300, len(times))
        self.assertNotIn(None, times)
        for answered in times:
            self.assertGreaterEqual(answered.service_us, 200)
            # The client's time is the service's and the way there and back.
            self.assertGreater(answered.client_us, answered.service_us)

    def test_load_of_exponential_work(self):
        before = _cpu_s(self.service.pid)
        command = [str(rtprobe.client()), 'load', '127.0.0.1']
        command += ['500', '1000', '400', '1', 'exponential']
        output = subprocess.check_output(command, text=True, timeout=60)
        used = _cpu_s(self.service.pid) - before
        # The 20 requests before, and what is drawn of seed 1.
        self.assertAlmostEqual(0.02 + 0.37, used, delta=0.05)
        fastest = min(int(line.split()[0]) for line in output.splitlines())
        self.assertLess(fastest, 200)

    def test_load_counts_from_the_moment_meant(self):
        # Twice as much work as there is time for: the queue grows, and with
        # it every response time, although each request is sent at once.
        times = self.probe.load(rate=1000, service_us=2000, count=200, seed=1)
        for end in ('service_us', 'client_us'):
            with self.subTest(end):
                slowest = max(getattr(answered, end) for answered in times)
                self.assertGreater(slowest, 100 * 1000)

    def test_service_counts_what_keeps_it_from_running(self):
        # The request arrives while the service cannot run at all.
        self.service.send_signal(signal.SIGSTOP)
        resume = threading.Timer(
            0.3, self.service.send_signal, [signal.SIGCONT]
        )
        resume.start()
        self.addCleanup(resume.join)
        took_us = int(self.probe.ask('W', 1000).split()[1])
        self.assertGreater(took_us, 200 * 1000)
        self.assertLess(took_us, 10**6)

    def test_service_does_not_count_the_client(self):
        # A client that is stopped sends too late, which only it can see.
        command = [str(rtprobe.client()), 'load', '127.0.0.1']
        command += ['100', '100', '200', '1']
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True
        ) as client:
            time.sleep(0.5)
            client.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            client.send_signal(signal.SIGCONT)
            output, _ = client.communicate(timeout=60)
        times = [list(map(int, line.split())) for line in output.splitlines()]
        slowest_service, slowest_client = map(max, zip(*times, strict=True))
        self.assertGreater(slowest_client, 300 * 1000)
        self.assertLess(slowest_service, 100 * 1000)

    def test_no_answer(self):
        with self.assertRaisesRegex(rtprobe.ProbeError, 'no answer'):
            rtprobe.Probe('127.0.0.2.').ask('I')


class NetworkTest(unittest.TestCase):
    """The switch, with another process instead of it."""

    def setUp(self):
        super().setUp()
        self.switch = subprocess.Popen(['sleep', '600'])
        self.addCleanup(self.switch.wait)
        self.addCleanup(self.switch.kill)
        self.service = mock.Mock(spec_set=['running'])
        self.service.running.return_value = self.switch
        patch = mock.patch.object(services, 'table', autospec=True)
        patch.start().return_value = {'ovs-vswitchd': self.service}
        self.addCleanup(patch.stop)
        self.cpus = os.sched_getaffinity(0)

    def runs_as(self):
        pid = self.switch.pid
        return os.sched_getscheduler(pid), os.sched_getaffinity(pid)

    def test_runs_first_for_a_while(self):
        before = self.runs_as()
        cpu = max(self.cpus)
        with self.assertRaises(KeyboardInterrupt), network.ahead(cpu):
            self.assertEqual((os.SCHED_FIFO, {cpu}), self.runs_as())
            raise KeyboardInterrupt
        self.assertEqual(before, self.runs_as())

    def test_no_other_cpu(self):
        with network.ahead(None):
            self.assertEqual((os.SCHED_FIFO, self.cpus), self.runs_as())

    def test_no_switch(self):
        self.service.running.return_value = None
        with self.assertRaisesRegex(console.LabError, 'does not run'):
            with network.ahead(0):
                self.fail('went on without a switch')


class DistributionTest(unittest.TestCase):
    """Numbers, table and picture."""

    def test_percentiles_are_measured_times(self):
        series = distribution.Series.of('plain', 'alone', range(200, 0, -1))
        self.assertEqual(100, series.percentile(50))
        self.assertEqual(198, series.percentile(99))
        self.assertEqual(200, series.percentile(100))

    def test_one_request(self):
        series = distribution.Series.of('plain', 'alone', [7])
        self.assertEqual([7, 7], [series.percentile(p) for p in (50, 99)])

    def test_lost_requests_are_counted(self):
        series = distribution.Series.of('plain', 'alone', [3, None, 1])
        self.assertEqual(((1, 3), 1), (series.times_us, series.lost))
        with self.assertRaisesRegex(ValueError, 'no request was answered'):
            distribution.Series.of('plain', 'alone', [None])

    def test_steps(self):
        xs, shares = distribution.steps([2.5, 4.0])
        self.assertEqual(([2.5, 2.5, 4.0], [0, 0.5, 1]), (xs, shares))

    def test_table_and_picture(self):
        series = [
            distribution.Series.of('plain', 'alone', range(1000, 2000)),
            distribution.Series.of('plain', 'noise', range(3000, 6000, 3)),
        ]
        rows = distribution.table(series).splitlines()
        self.assertEqual(
            [
                'plain',
                'alone',
                '1.50',
                '1.90',
                '1.99',
                '2.00',
                '1.00',
                '0',
            ],
            rows[1].split(),
        )
        self.assertEqual('3.00', rows[2].split()[-2])
        with tempfile.TemporaryDirectory() as directory:
            target = pathlib.Path(directory) / 'new' / 'picture.png'
            distribution.picture(series, 'title', 'sub', 'how', target)
            self.assertEqual(b'\x89PNG', target.read_bytes()[:4])


class CpuListTest(unittest.TestCase):
    """The kernel's lists."""

    def test_forms(self):
        for text, cpus in (('', []), ('0\n', [0]), ('0-2,7', [0, 1, 2, 7])):
            with self.subTest(text):
                self.assertEqual(cpus, container.cpu_list(text))


def _cpu_s(pid):
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2]
    ticks = sum(map(int, fields.split()[11:13]))
    return ticks / os.sysconf('SC_CLK_TCK')
