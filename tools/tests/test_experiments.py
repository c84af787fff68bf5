# SPDX-License-Identifier: Apache-2.0
"""experiments/: descriptions, what is read, computed and judged.

The load is compiled and asked on the loopback device. Nothing here needs a
kernel of its own; `make experiments` measures.
"""

import dataclasses
import io
import json
import math
import pathlib
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

import numpy

from experiments import description, evaluate, guest, judge, report, samples
from experiments import simulated as requests
from experiments.description import Point, Refused
from experiments.distwalk import __main__ as distwalk
from nova_rt.model import judged, simulation
from nova_rt.model.schedule import Position

GOOD = """
title: A title
source: a paper
question: Why?
setup: So.
deviates: Nowhere.
x: inter_arrival_us
curves: ldr
common: {bandwidth: 0.5, period_us: 2000}
full: {count: 1000, ldr: [0.5, 0.8], inter_arrival_us: [1000, 2000]}
small: {}
"""
KEYS = {'ldr': 0.5, 'bandwidth': 0.7}


class DescriptionTest(unittest.TestCase):
    def test_all_figures(self):
        papers = {f'closer20-fig{number}' for number in range(2, 8)} | {
            'edge19-fig3',
            'edge19-fig4ac',
            'edge19-fig4bd',
            'edge19-fig5',
        }
        self.assertLessEqual(papers, set(description.names()))
        for name in description.names():
            figure = description.load(name)
            self.assertEqual(10_000, figure.count('full'), name)
            self.assertLessEqual(
                len(list(figure.points('small'))),
                len(list(figure.points('full'))),
                name,
            )

    def test_grid(self):
        figure = description.parse('good', GOOD)
        self.assertEqual(4, len(list(figure.points('full'))))
        self.assertEqual([], list(figure.points('small')))

    def test_every_bound_is_in_the_check(self):
        # So that `make check` fails if one of them is broken.
        results = {}
        for name in description.names():
            figure = description.load(name)
            results[name] = [simulated(p) for p in figure.points('check')]
        found = judge.verdicts(results)
        self.assertEqual([], [each.what for each in found if not each.holds])
        # But the control: it takes a kernel of its own.
        self.assertEqual(12, len(found))

    def test_pairs(self):
        text = GOOD.replace(
            'ldr: [0.5, 0.8]',
            '"ldr, period_us": [[0.5, 1000], [0.8, 2000]]',
        )
        points = list(description.parse('good', text).points('full'))
        self.assertEqual({1000, 2000}, {point.period_us for point in points})
        self.assertEqual(4, len(points))

    def test_full_links_are_left_out(self):
        text = GOOD.replace('period_us: 2000}', 'link_mbit: 0.7}')
        points = list(description.parse('good', text).points('full'))
        self.assertEqual({2000}, {point.inter_arrival_us for point in points})

    def test_arithmetic(self):
        point = Point(ldr=0.8, bandwidth=0.5, bwr=0.5, size_bytes=1000)
        self.assertEqual(500, point.rate_per_s)
        self.assertEqual(800, point.service_us)
        self.assertEqual(1000, point.runtime_us)
        self.assertEqual(8_000_000, point.link_bit_per_s)

    def test_refused_points(self):
        for wrong in (
            {'ldr': 1.0},
            {'ldr': 0.0},
            {'ldr': -0.5},
            {'ldr': math.nan},
            {'ldr': math.inf},
            {'ldr': '0.5'},
            {'ldr': True},
            {'ldr': [0.5]},
            {'load': 0.5},
            {'bandwidth': 0.96},
            {'bandwidth': 0.0},
            {'bandwidth': 0.8, 'noise': 'periodic'},
            {'noise': 'loud'},
            {'noise': 'many', 'bandwidth': 0.92},
            {'noise': 'equal', 'bandwidth': 0.95},
            {'noise': 'shorter', 'bandwidth': 0, 'ldr': 0, 'load': 0.5},
            {'period_us': 99},
            {'work_is': 'normal'},
            {'kernel': '../../etc'},
            {'period_us': 0},
            {'inter_arrival_us': 0},
            {'bwr': 0.5, 'link_mbit': 16},
            {'cpus': 0},
            {'cpus': 1.5},
            {'cpus': 5},
            {'cpus': 2, 'noise': 'hogs', 'ldr': 0.1},
            {'cpus': 2, 'bwr': 0.5},
            {'cpus': 2, 'size_bytes': 1515},
            {'cpus': 2, 'size_is': 'exponential'},
            {'cpus': 2, 'work_is': 'constant'},
        ):
            with self.subTest(wrong), self.assertRaises(Refused):
                Point(**(KEYS | wrong))

    def test_refused_files(self):
        for wrong in (
            '',
            '[]',
            '{',
            'a: 1',
            GOOD + 'more: 1\n',
            GOOD.replace('title', 'titel'),
            GOOD.replace('count: 1000', 'count: 99'),
            GOOD.replace('count: 1000', 'count: many'),
            GOOD.replace('[0.5, 0.8]', '0.5'),
            GOOD.replace('[0.5, 0.8]', '[]'),
            GOOD.replace('[0.5, 0.8]', '[0.5, 1.5]'),
            GOOD.replace('ldr: [0.5, 0.8]', '"ldr, load": [0.5]'),
            GOOD.replace('x: inter_arrival_us', 'x: colour'),
            GOOD.replace('small: {}', 'small: []'),
            GOOD + 'draw: pie\n',
            '!!python/object/apply:os.system ["true"]',
        ):
            with self.subTest(wrong), self.assertRaises(Refused):
                description.parse('wrong', wrong)

    def test_refused_names(self):
        for wrong in ('../../setup', 'no-such', '', 'A'):
            with self.subTest(wrong), self.assertRaises(Refused):
                description.load(wrong)


class SamplesTest(unittest.TestCase):
    LOG = """[    0.1] boot
POINT a
load: ready
virtual_ms 10
0 100 105 150 30 128
1 200 201 lost
2 300 300 390 40 128
end 2 3
nr_periods 3
END a 0
POINT b
0 100 105 150 30 128
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
            ('END a 0\n', ''),
            ('END a 0', 'END a 256'),
            ('300 300 390', '300 299 390'),
            ('300 300 390', '300 310 305'),
            ('300 390 40 128', '300 390 40'),
            ('300 390 40', '300 390 -40'),
            ('end 2 3\n', 'end 2 3\n3 1 1 1 1 1\n'),
        ):
            with self.subTest(new), self.assertRaises(samples.Malformed):
                samples.parse(self.LOG.replace(old, new, 1))


def run_of(point, done_ns, arrivals_ns, works_ns, trip_ns=20_000):
    """What a guest would have measured of these requests."""
    return samples.Run(
        arrivals_ns,
        arrivals_ns + 4_000,
        done_ns + trip_ns,
        works_ns,
        numpy.full(len(done_ns), 128),
        0,
    )


def simulated(point, late_ns=0, count=3000, position=Position.FIRST):
    """A point as an ideal kernel would measure it, or a late one."""
    rng = numpy.random.default_rng(1)
    arrivals = simulation.poisson_ns(point.rate_per_s, count, rng)
    if point.work_is == 'constant':
        works = simulation.constant_ns(point.service_us / 1e6, count)
    else:
        works = simulation.exponential_ns(point.service_us / 1e6, count, rng)
    if point.cpus > 1:
        slowed = numpy.ceil(works / point.bandwidth).astype(numpy.int64)
        done = simulation.fifo_many_ns(arrivals, slowed, point.cpus)
    elif point.bandwidth:
        late = position is Position.LAST
        place = judged.Place(late) if late else requests.place(point)
        done = judged.run(point.reservation, place, arrivals, works)
    else:
        done = simulation.fifo_ns(arrivals, works)
    run = run_of(point, done + late_ns, arrivals, works)
    return evaluate.evaluate(point, run, 20e-6)


class EvaluateTest(unittest.TestCase):
    def test_the_scheduler_is_its_own_simulation(self):
        one = simulated(Point(ldr=0.7, bandwidth=0.7))
        self.assertLess(abs(one.scheduler_error), 1e-6)
        self.assertLess(abs(one.scheduler_percentile_error), 1e-6)
        # Alone on its CPU: earlier than the fluid CPU, and by how much.
        self.assertLess(one.fluid_error, -0.02)
        self.assertLess(abs(one.alone_error), 0.02)
        self.assertLess(one.excess_s, one.gap_s)
        self.assertAlmostEqual(605e-6, one.gap_s, delta=1e-9)

    def test_chance_and_fluid_make_the_error(self):
        one = simulated(Point(ldr=0.7, bandwidth=0.7))
        self.assertAlmostEqual(
            1 + one.error, (1 + one.chance) * (1 + one.fluid_error), places=9
        )

    def test_a_plain_server_has_no_gap(self):
        one = simulated(Point(load=0.5))
        self.assertEqual(0, one.gap_s)
        self.assertLess(abs(one.fluid_error), 1e-6)

    def test_token_bucket(self):
        # A frame by frame bucket of 1514 bytes at 8 Mbit/s: 1 us a byte.
        arrivals = numpy.array([0, 0, 10_000_000])
        sizes = numpy.array([1514, 3028, 100])
        left = requests.through_link_ns(arrivals, sizes, 8_000_000)
        self.assertEqual([0, 3_028_000, 10_000_000], left.tolist())

    def test_hardly_any_answer(self):
        few = numpy.arange(evaluate.SKIPPED) + 1
        run = run_of(None, few + 1, few, few)
        with self.assertRaises(samples.Malformed):
            evaluate.evaluate(Point(**KEYS), run, 20e-6)

    def test_percentile_without_chance(self):
        one = simulated(Point(load=0.5))
        self.assertAlmostEqual(
            one.theory.percentile_s, one.expected_percentile_s, places=9
        )


class JudgeTest(unittest.TestCase):
    def broken(self, *results, name='figure'):
        found = judge.verdicts({name: results})
        self.assertTrue(found)
        return [verdict.what for verdict in found if not verdict.holds]

    def test_an_ideal_kernel(self):
        self.assertEqual([], self.broken(simulated(Point(**KEYS))))

    def test_a_late_kernel(self):
        broken = self.broken(simulated(Point(**KEYS), late_ns=3_000_000))
        self.assertIn('No response is later', broken[0])
        self.assertIn('mean error', broken[1])
        self.assertIn('mean error', broken[2])

    def test_each_point_is_listed(self):
        (verdict, *_) = [
            each
            for each in judge.verdicts({'figure': [simulated(Point(**KEYS))]})
            if 'mean error' in each.what
        ]
        (line,) = verdict.points
        self.assertIn('Q/P 0.7, P 2 ms, LDR 0.500, 1/lambda 2 ms: ', line)
        # The papers' formula is off by its own, and does not break the bound.
        self.assertRegex(line, r'formula -1\d\.\d%')

    def test_a_percentile_that_is_off(self):
        point = Point(
            ldr=0.5,
            bandwidth=0.7,
            bwr=0.9,
            size_bytes=2048,
            size_is='exponential',
        )
        one = dataclasses.replace(simulated(Point(**KEYS)), point=point)
        right = one.expected_percentile_s
        for factor, broken in ((0.96, 0), (0.94, 1), (1.04, 0), (1.06, 1)):
            theory = evaluate.Numbers(1.0, right / factor)
            other = dataclasses.replace(
                one,
                theory=theory,
                fluid=dataclasses.replace(
                    one.fluid,
                    percentile_s=theory.percentile_s
                    + one.measured.percentile_s
                    - right,
                ),
            )
            with self.subTest(factor):
                self.assertEqual(broken, len(self.broken(other)))
        lost = dataclasses.replace(one, lost=1)
        found = judge.verdicts({'figure': [lost]})
        self.assertNotIn('exact', ' '.join(each.what for each in found))

    def test_late_once(self):
        # A single request of thousands.
        late = numpy.zeros(3000, dtype=int)
        late[1234] = 30_000_000
        broken = self.broken(simulated(Point(**KEYS), late_ns=late))
        self.assertEqual(1, len(broken))

    def test_late_by_little_more_than_the_gap(self):
        """One request at one of many points, whatever the others have."""
        first = simulated(Point(**KEYS))
        last = simulated(Point(**KEYS), position=Position.LAST)
        # As late as any neighbour can make it, by the theorem.
        self.assertLess(0.9 * last.gap_s, last.excess_s)
        late_ns = numpy.zeros(3000, dtype=int)
        late_ns[1234] = 10_000_000
        probe = simulated(Point(**KEYS), late_ns=late_ns)
        spare_s = probe.gap_s + evaluate.JITTER_S - probe.excess_s
        for more_ns, beyond in ((-2, 0), (2, 1)):
            late_ns[1234] = 10_000_000 + round(spare_s * 1e9) + more_ns
            late = simulated(Point(**KEYS), late_ns=late_ns)
            found = judge.verdicts({'figure': [first] * 9 + [late]})[0]
            self.assertEqual(not beyond, found.holds)
            self.assertIn(f'{beyond} of 29000 requests', found.found)
            self.assertIn('P - Q', found.what)
            self.assertNotIn('2 (P - Q)', found.what)
        self.assertTrue(judge.verdicts({'figure': [last]})[0].holds)

    def test_a_point_that_is_off(self):
        """One of many, in the mean or in the percentile."""
        first = simulated(Point(**KEYS))
        mean_s, percentile_s = (
            first.scheduler.mean_s, first.scheduler.percentile_s,
        )  # fmt: skip
        for mean, percentile, holds in (
            (1.019, 0.981, True), (1.021, 1, False), (1, 1.021, False),
            (0.979, 1, False), (1, 0.979, False),
        ):  # fmt: skip
            measured = evaluate.Numbers(
                mean * mean_s, percentile * percentile_s
            )
            off = dataclasses.replace(first, measured=measured)
            (found,) = [
                each
                for each in judge.verdicts({'figure': [first] * 9 + [off]})
                if 'at each point with' in each.what
            ]
            self.assertEqual(holds, found.holds, (mean, percentile))
        fuller = simulated(Point(ldr=0.81, bandwidth=0.7))
        found = judge.verdicts({'figure': [fuller]})
        self.assertNotIn(
            'at each point with', ' '.join(each.what for each in found)
        )

    def test_a_percentile_above_the_bound(self):
        point = Point(ldr=0.5, bandwidth=0.7, bwr=0.5, size_bytes=2048)
        one = dataclasses.replace(
            simulated(Point(**KEYS)), point=point, bound_s=1e-3
        )
        self.assertIn("papers' bound", self.broken(one)[0])
        # Nothing is stated for a fuller link.
        fuller = dataclasses.replace(point, bwr=0.9)
        self.assertEqual(
            [], self.broken(dataclasses.replace(one, point=fuller))
        )

    def test_noise(self):
        point = Point(ldr=0.5, bandwidth=0.7)
        beside = dataclasses.replace(point, noise='periodic')
        alone = simulated(point)
        as_alone = dataclasses.replace(alone, point=beside)
        self.assertEqual([], self.broken(alone, as_alone, name='isolation'))
        slower = evaluate.Numbers(1.0, alone.measured.percentile_s * 1.03)
        worse = dataclasses.replace(as_alone, measured=slower)
        broken = self.broken(alone, worse, name='isolation')
        self.assertIn('periodic tasks', broken[0])

    def test_busy_neighbours(self):
        """They may take what the theorem allows, and no more."""
        alone = simulated(Point(ldr=0.8, bandwidth=0.5))
        shares = {'equal': 1, 'shorter': 1, 'many': 9}
        for noise, number in shares.items():
            point = Point(ldr=0.8, bandwidth=0.5, noise=noise)
            self.assertEqual(number, len(point.beside))
            total = sum(each.ppm for each in point.beside)
            self.assertLess(448_000, total)
            self.assertLessEqual(total, 450_000)
            one = simulated(point)
            self.assertEqual([], self.broken(alone, one))
            self.assertGreater(one.excess_s, alone.excess_s)
            slow = evaluate.Numbers(1, one.phases_s[1] * 1.021)
            slower = dataclasses.replace(one, measured=slow)
            self.assertIn('always busy', self.broken(alone, slower)[0])

    def test_longer_than_guaranteed(self):
        one = simulated(Point(work_is='constant', **KEYS))
        self.assertEqual([], self.broken(one))
        self.assertGreater(one.longest_s, one.guaranteed_s / 3)
        longer = dataclasses.replace(
            one, longest_s=one.guaranteed_s + evaluate.JITTER_S + 1e-9
        )
        self.assertIn('guaranteed bound', self.broken(longer)[0])

    def test_lost(self):
        one = dataclasses.replace(simulated(Point(**KEYS)), lost=1)
        self.assertIn('lost', self.broken(one)[0])

    def test_several_cpus(self):
        # Without moving, requests are as slow as M/M/n says: the bound holds
        # to the nanosecond, the better model does not.
        one = simulated(Point(cpus=4, ldr=0.5, bandwidth=0.7))
        (broken,) = self.broken(one)
        self.assertIn('mean_shared_s', broken)
        shared = dataclasses.replace(
            one,
            measured=dataclasses.replace(one.measured, mean_s=one.alone_s),
        )
        self.assertEqual([], self.broken(shared))
        slower = evaluate.Numbers(one.fluid.mean_s * 1.01, 1.0)
        slow = dataclasses.replace(one, measured=slower)
        self.assertIn('M/M/n is not below', self.broken(slow)[0])

    def test_the_control_promises_nothing(self):
        """It is to be late, or the bound shows nothing."""
        point = dataclasses.replace(Point(**KEYS), kernel='base')
        for late_ns, holds in ((30_000_000, True), (0, False)):
            one = simulated(point, late_ns=late_ns)
            (found,) = judge.verdicts({'figure': [one]})
            self.assertIn('unpatched', found.what)
            self.assertEqual(holds, found.holds)


class ReportTest(unittest.TestCase):
    def test_page(self):
        figure = description.parse('good', GOOD.replace('Why?', 'a < b?'))
        results = [
            simulated(point, count=400) for point in figure.points('full')
        ]
        results[0] = dataclasses.replace(results[0], lost=1)
        verdicts = judge.verdicts({'good': results})
        with tempfile.TemporaryDirectory() as name:
            page = report.write(
                pathlib.Path(name),
                'full',
                [figure],
                {'good': results},
                verdicts,
            )
            text = page.read_text()
            lines = (pathlib.Path(name) / 'good.csv').read_text().splitlines()
            summary = json.loads(
                (pathlib.Path(name) / 'verdicts.json').read_text()
            )
        self.assertIn('a &lt; b?', text)
        self.assertIn('data:image/svg+xml;base64,', text)
        for outside in ('src="http', 'href="http', '<script', '<link'):
            self.assertNotIn(outside, text)
        self.assertIn('<td class="broken">', text)
        # Nothing here has a link, so that column is in the numbers only.
        self.assertIn('<th>beyond</th>', text)
        self.assertNotIn('<th>bound p99</th>', text)
        self.assertIn('bound p99', lines[0])
        self.assertEqual(1 + len(results), len(lines))
        self.assertEqual(len(verdicts), len(summary['verdicts']))


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
        """What was measured is asked again, at the same instants."""
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
