# SPDX-License-Identifier: Apache-2.0
"""experiments/: what guests are asked, and what they answer.

The load is compiled and asked on the loopback device. Nothing here needs a
kernel of its own; `make experiments` measures.
"""

import dataclasses
import io
import math
import pathlib
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

import numpy

from experiments import guest, samples
from experiments.description import Point
from experiments.distwalk import __main__ as distwalk
from tools.tests.test_experiments import KEYS


class SamplesTest(unittest.TestCase):
    LOG = """[    0.1] boot
POINT a
load: ready
virtual_ms 10
0 100 105 110 115 120 150 5 30 128
1 200 201 205 lost
2 300 300 305 308 310 390 10 40 128
end 2 3
nr_periods 3
END a 0
POINT b
0 100 105 110 115 120 150 5 30 128
end 1 1
END b 0
"""

    def test_parse(self):
        runs = samples.parse(self.LOG)
        self.assertEqual([50, 90], runs['a'].response_ns.tolist())
        self.assertEqual([5, 0], runs['a'].late_ns.tolist())
        self.assertEqual((1, 0), (runs['a'].lost, runs['b'].lost))

    def test_malformed(self):
        for old, new in (
            ('end 2 3\n', ''),
            ('end 2 3', 'end 3 3'),
            ('2 300', '3 300'),
            ('300 305', '300 299'),
            ('END a 0\n', ''),
            ('END a 0', 'END a 256'),
            ('300 300 305', '300 299 305'),
            ('310 390', '310 305'),
            ('308 310 390', '308 307 390'),
            ('305 308', '305 299'),
            ('10 40 128', '41 40 128'),
            ('390 10 40 128', '390 10 40'),
            ('390 10 40', '390 10 -40'),
            ('390 10 40', '390 40'),
            ('end 2 3\n', 'end 2 3\n3 1 1 1 1 1 1 1 1 1\n'),
        ):
            with self.subTest(new), self.assertRaises(samples.Malformed):
                samples.parse(self.LOG.replace(old, new, 1))


class GuestTest(unittest.TestCase):
    def test_logs_that_do_not_do(self):
        log = pathlib.Path('log')
        guest.check('POINT a\nEND a 0\nDONE failures 0\n', log)
        for wrong in (
            '',
            'DONE failures 1\n',
            'FATAL /plan: no\nDONE failures 0\n',
            'WARNING: CPU: 0 PID: 1 at kernel/sched\nDONE failures 0\n',
        ):
            with self.subTest(wrong), self.assertRaises(guest.Failed):
                guest.check(wrong, log)

    def test_stored(self):
        one, two = (
            guest.Task(name, Point(**KEYS), 1, 7) for name in ('a', 'b')
        )
        with tempfile.TemporaryDirectory() as name:
            cache = pathlib.Path(name)
            with self.assertRaisesRegex(guest.Failed, 'no samples'):
                guest.stored('hcbs', [one, two], cache)
            for file, begin in (
                ('1', guest._begin('hcbs', [one, two])),
                ('2', guest._begin('base', [one, two])),
            ):
                (cache / f'{file}.log').write_text(begin + SamplesTest.LOG)
            (cache / '3.log').write_text(SamplesTest.LOG)
            found = guest.stored('hcbs', [one, two], cache)
            self.assertEqual([50, 90], found['a'].response_ns.tolist())
            # A part of them, more of them and others of them.
            other = dataclasses.replace(two, seed=8)
            for wanted in ([one], [one, two, two], [one, other]):
                with self.assertRaises(guest.Failed):
                    guest.stored('hcbs', wanted, cache)

    def test_line(self):
        task = guest.Task('p0', Point(ldr=0.8, bandwidth=0.5), 1000, 7)
        self.assertEqual(
            'p0 runtime=1000 period=2000 noise=none link=0 delay=0 cpus=1 '
            '-- --count 1000 --seed 7 --rate 500 --work 800000 --work-is '
            'exponential --size 128 --size-is constant',
            task.line(),
        )


class DistwalkTest(unittest.TestCase):
    def test_our_part_compiles(self):
        with tempfile.TemporaryDirectory() as name:
            source = guest.HERE / 'distwalk/load.c'
            guest.compile_c(source, pathlib.Path(name) / 'load')

    def test_refused_options(self):
        for wrong in (
            ['--noise'], ['--lab', '0'], ['--lab', 'x'],
            ['--lab', '5', '--output', 'x'],
        ):  # fmt: skip
            with (
                self.subTest(wrong),
                mock.patch('sys.stderr', io.StringIO()) as err,
                self.assertRaises(SystemExit) as ended,
            ):
                distwalk.arguments(wrong)
            self.assertEqual(2, ended.exception.code)
            self.assertIn('error: ', err.getvalue())

    def test_without_distwalk(self):
        with tempfile.TemporaryDirectory() as name:
            top = pathlib.Path(name)
            with mock.patch.object(distwalk, 'PUBLIC', str(top / 'none')):
                with self.assertRaisesRegex(
                    distwalk.Unavailable, 'git clone .* ended with 128'
                ):
                    distwalk.build(top / 'source')
            (top / 'source').mkdir()
            with self.assertRaisesRegex(
                distwalk.Unavailable, 'make .* ended with 2'
            ):
                distwalk.build(top / 'source')

    def test_samples_are_not_taken_for_ours(self):
        theirs = guest.Load(programs=(pathlib.Path('bin/dw_node'),))
        task = guest.Task('a', Point(**KEYS), 1, 7)
        with tempfile.TemporaryDirectory() as name:
            cache = pathlib.Path(name)
            text = guest._begin('hcbs', [task], theirs) + SamplesTest.LOG
            (cache / '1.log').write_text(text)
            with self.assertRaises(guest.Failed):
                guest.stored('hcbs', [task], cache)


class LoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        where = tempfile.TemporaryDirectory()
        cls.addClassCleanup(where.cleanup)
        cls.program = pathlib.Path(where.name) / 'load'
        guest.compile_c(guest.HERE / 'load/load.c', cls.program)

    def load(self, *arguments):
        return subprocess.run(
            [self.program, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def ask(self, server=(), **options):
        """Requests on the loopback device."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(('127.0.0.1', 0))
            port = str(free.getsockname()[1])
        with subprocess.Popen(
            [self.program, 'server', '--port', port, *server],
            stderr=subprocess.PIPE,
            text=True,
        ) as serving:
            try:
                self.assertEqual('load: ready\n', serving.stderr.readline())
                done = self.load(
                    *('client', '--to', '127.0.0.1', '--port', port),
                    *(
                        word
                        for key, value in options.items()
                        for word in (f'--{key.replace("_", "-")}', str(value))
                    ),
                )
            finally:
                serving.kill()
        self.assertEqual(0, done.returncode, done.stderr)
        return samples.requests(done.stdout.splitlines())

    def test_distributions(self):
        # The seed is fixed, so these tests, at 99.9 % each, do not fail by
        # chance; Kolmogorov and Smirnov with known means, critical 1.95.
        run = self.ask(
            count=2000,
            rate=4000,
            size=4000,
            size_is='exponential',
            patience=1,
        )
        gaps = numpy.diff(run.intended_ns, prepend=0)
        # Of requests that were lost on the way, the gaps are longer.
        self.assertEqual(0, run.lost)
        for values, mean in ((gaps, 250_000), (run.size_bytes, 4000)):
            expected = -numpy.expm1(-numpy.sort(values) / mean)
            ranks = numpy.arange(len(values) + 1) / len(values)
            distance = max(
                (ranks[1:] - expected).max(), (expected - ranks[:-1]).max()
            )
            self.assertLess(distance * math.sqrt(len(values)), 1.95)
        self.assertLess(
            abs(numpy.corrcoef(gaps[1:], gaps[:-1])[0, 1]), 3.3 / 44
        )

    def test_cpu_times(self):
        run = self.ask(count=200, rate=1000, work=300_000)
        service = run.service_ns
        self.assertEqual(0, run.lost)
        expected = -numpy.expm1(-numpy.sort(service) / 300_000)
        ranks = numpy.arange(201) / 200
        distance = max(
            (ranks[1:] - expected).max(), (expected - ranks[:-1]).max()
        )
        # Receiving takes some time too, so short ones are not exponential.
        self.assertLess(distance * math.sqrt(200), 2.5)
        constant = self.ask(
            count=50, rate=500, work=400_000, work_is='constant'
        )
        self.assertGreaterEqual(constant.service_ns.min(), 400_000)
        self.assertLess(numpy.median(constant.service_ns), 440_000)

    def test_threads_share_a_queue(self):
        run = self.ask(
            server=('--threads', '4'),
            count=200,
            rate=10_000,
            work=100_000,
            size=100,
        )
        self.assertEqual(0, run.lost)
        # Of one thread, each CPU time counts once, and so it does of four.
        self.assertGreaterEqual(run.service_ns.min(), 1)
        self.assertLess(run.service_ns.mean(), 200_000)
        split = self.ask(
            server=('--threads', '2'),
            count=3,
            rate=10_000,
            size=2000,
            patience=0,
        )
        self.assertEqual(3, split.lost)

    def test_open_loop(self):
        # More work than there is CPU: requests are due nevertheless.
        run = self.ask(
            count=100, rate=2000, work=2_000_000, work_is='constant'
        )
        self.assertLess(run.intended_ns[-1], 100e6)
        self.assertGreater(run.response_ns[-1], 100e6)

    def test_arrivals(self):
        # While one is served, others come, and the kernel notes when.
        run = self.ask(
            count=20, rate=1e6, work=5_000_000, work_is='constant', size=4000
        )
        # What the server did before the first came counts as its service.
        waited = (run.received_ns - run.arrived_ns - run.service_ns)[1:]
        self.assertGreaterEqual(waited.min(), 0)
        self.assertTrue((run.arrived_ns[1:] < run.received_ns[:-1]).any())
        # Three datagrams, of which the server has taken two before the last.
        self.assertTrue((run.begun_ns < run.arrived_ns).any())
        self.assertGreater(run.early_ns.min(), 0)
        whole = self.ask(count=20, rate=1e6, size=1000)
        self.assertEqual(whole.begun_ns.tolist(), whole.arrived_ns.tolist())
        self.assertEqual(0, whole.early_ns.max())

    def test_the_same_seed(self):
        once, again, other = (
            self.ask(count=20, rate=20000, patience=1, seed=seed)
            for seed in (3, 3, 4)
        )
        self.assertEqual(once.intended_ns.tolist(), again.intended_ns.tolist())
        self.assertNotEqual(
            once.intended_ns.tolist(), other.intended_ns.tolist()
        )

    def trace(self, text):
        path = self.program.with_name('trace')
        path.write_text(text)
        return path

    def test_trace(self):
        """Requests of a measurement, asked again at the same instants."""
        text = ''.join(
            f'{number * 250_000} {40_000 + number} {100 + number}\n'
            for number in range(100)
        )
        run = self.ask(trace=self.trace(text + '30000000 0\n'))
        self.assertEqual(0, run.lost)
        self.assertEqual(
            [*range(0, 25_000_000, 250_000), 30_000_000],
            run.intended_ns.tolist(),
        )
        self.assertEqual([*range(100, 200), 128], run.size_bytes.tolist())
        asked = [*range(40_000, 40_100), 0]
        self.assertTrue((run.service_ns >= asked).all())

    def test_refused_trace(self):
        for wrong, why in (
            ('', 'no requests'),
            ('5\n', 'line 1: not'),
            ('0 1\n5 x\n', 'line 2: not'),
            ('0 1 100 7\n', 'line 1: not'),
            ('0 1 many\n', 'line 1: not'),
            ('0.5 1\n', 'line 1: not'),
            ('7 1\n6 1\n', 'line 2: the instant'),
            ('-1 1\n', 'line 1: the instant'),
            ('99999999999999999999 1\n', 'line 1: the instant'),
            ('0 -1\n', 'line 1: the CPU time'),
            ('0 1 1\n', 'line 1: the size'),
            ('0 1 99999999999\n', 'line 1: the size'),
        ):
            done = self.load(
                *('client', '--to', '127.0.0.1', '--port', '9'),
                *('--trace', self.trace(wrong)),
            )
            with self.subTest(wrong):
                self.assertEqual(2, done.returncode, done.stdout)
                self.assertIn(why, done.stderr)
                self.assertEqual(1, done.stderr.count('\n'))

    def test_without_a_server(self):
        done = self.load(
            *('client', '--to', '127.0.0.1', '--port', '9', '--count', '1'),
            *('--rate', '1000', '--patience', '0'),
        )
        self.assertIn('lost\nend 0 1\n', done.stdout)

    def test_refused(self):
        good = {'to': '127.0.0.1', 'port': '9', 'count': '1', 'rate': '1'}
        for wrong in (
            {'to': 'localhost'},
            {'to': ''},
            {'port': '0'},
            {'port': '65536'},
            {'count': '0'},
            {'count': '1.5'},
            {'count': '1e99'},
            {'rate': 'nan'},
            {'rate': '-1'},
            {'rate': '0'},
            {'rate': '1x'},
            {'rate': ''},
            {'work': 'inf'},
            {'work': '-1'},
            {'work-is': 'normal'},
            {'size': '0'},
            {'size': '9999999'},
            {'seed': '-1'},
            {'deadline': '0'},
            {'patience': '-1'},
            {'colour': 'red'},
            {'trace': '/dev/null'},
        ):
            words = [
                word
                for key, value in (good | wrong).items()
                for word in (f'--{key}', value)
            ]
            done = self.load('client', *words)
            with self.subTest(wrong):
                self.assertEqual(2, done.returncode)
                self.assertEqual(1, done.stderr.count('\n'))
        for words in (
            ['client'],
            ['client', '--port'],
            ['server'],
            ['server', '--port', '7', '--to', '127.0.0.1'],
            ['server', '--port', '7', '--threads', '0'],
            ['client', '--threads', '2'],
            ['other'],
            [],
        ):
            with self.subTest(words):
                self.assertEqual(2, self.load(*words).returncode)
