# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.simulate."""

import fractions
from unittest import mock

import numpy

from nova_rt.model import judged
from nova_rt.tests.unit.cmd.model import base

LINE = 'simulate --reservation 1400/2000 --service-time 1ms '
NAMES = ('Mean', 'p50', 'p90', 'p99')


class SimulateTest(base.TestCase):
    def test_seeded(self):
        line = f'{LINE} --rate 400/s --requests 20000'
        self.assertEqual(self.ask(line), self.ask(line))
        self.assertNotEqual(
            self.ask(line)['Mean'], self.ask(f'{line} --seed 2')['Mean']
        )

    def test_places(self):
        """Alone it is never slower than the model, late never than safe."""
        found = {}
        for place in ('', '--late', '--beside 599/2000'):
            said = self.ask(f'{LINE} --rate 400/s --requests 30000 {place}')
            self.assertTrue(said['Latest']['Within'])
            self.assertLessEqual(
                said['Latest']['After fluid'], said['Latest']['Allowed'] + 1e-9
            )
            for name in NAMES:
                one = said[name]
                self.assertLess(one['Low'], one['High'])
                self.assertLess(one['Low'], one['Safe'])
                self.assertAlmostEqual(one['Model'] + 6e-4, one['Safe'])
            found[place] = said
        alone, late, beside = (each['Mean'] for each in found.values())
        self.assertLess(alone['Simulated'], beside['Simulated'])
        self.assertLess(beside['Simulated'], late['Simulated'])
        self.assertLess(alone['Low'], alone['Model'])
        self.assertEqual(0, found['']['Latest']['Allowed'])
        self.assertAlmostEqual(6e-4, found['--late']['Latest']['Allowed'])
        # The late one reaches it.
        self.assertLess(5.9e-4, found['--late']['Latest']['After fluid'])

    def test_model_is_that_of_latency(self):
        line = '--rate 400/s --service-time 1ms --reservation 1400/2000'
        for more in ('', '--distribution constant', '--latency 1ms'):
            said = self.ask(f'simulate {line} --requests 3100 {more}')
            model = self.ask(f'latency {line} --overhead 0us {more}')
            for name in NAMES[:3]:
                self.assertAlmostEqual(model[name], said[name]['Model'])

    def test_measured(self):
        path = self.write('times.csv', '1ms\n3ms\n' * 50)
        said = self.ask(
            'simulate --reservation 1400/2000 --rate 200/s --requests 31000 '
            '--measured', path,
        )  # fmt: skip
        self.assertEqual('M/G/1', said['Model'])
        self.agrees(said, 1e-4)

    def test_periodic(self):
        """All are the same for the model, and within the gap of it."""
        said = self.ask(
            'simulate --reservation 1400/2000 --rate 257/100ms --late '
            '--arrivals periodic --service-time 0.233ms --batch 2 '
            '--distribution constant --requests 31000'
        )
        self.assertEqual(31_000, said['Requests'])
        self.assertAlmostEqual(2 * 0.233e-3 / 0.7, said['p99']['Model'])
        self.assertLess(said['p99']['High'], said['p99']['Safe'])
        self.assertTrue(said['Latest']['Within'])

    def test_trace(self):
        rng = numpy.random.default_rng(1)
        instants = numpy.cumsum(rng.exponential(2500, 4000)) + 7e9
        path = self.write('come.csv', '\n'.join(map(str, instants)))
        said = self.ask(f'{LINE} --arrivals-unit us --arrivals', path)
        self.assertEqual(4000, said['Requests'])
        self.assertTrue(said['Latest']['Within'])
        self.assertTrue(0.5 < said['Load'] < 0.65)
        # Too few for it.
        self.assertIsNone(said['p99'])

    def test_trace_that_is_none(self):
        for text, data in (
            ('too few', '1s\n' * 3099),
            ('above 0', '1s\n' * 3100),
            ('line 3101', '1s\n' * 3100 + '-1s\n'),
            ('line 1', 'nan\n' * 3100),
            ('before the one', '2s\n' * 3100 + '1s\n'),
            ('less than a century', '0s\n' * 3100 + '1e14s\n'),
            ('unstable', ''.join(f'{i}us\n' for i in range(3100))),
            ('no service times', ''),
            ('has no unit', '1\n' * 3100),
        ):
            self.assert_refused(
                text, f'{LINE} --arrivals', self.write('x.csv', data)
            )

    def test_refused(self):
        for text, more in (
            ('give --rate', ''),
            ('is not for a file', '--arrivals x --requests 5000'),
            ('sleeps', '--rate 1/s --polling'),
            ('either --late or --beside', '--rate 1/s --late --beside 9/900'),
            ('admitted up to 1', '--rate 400/s --beside 601/2000'),
            ('admitted up to 1', '--rate 1/s --beside 300/1000 '
             '--beside 2/1000'),
            ('take too long', '--rate 1/min --beside 200/1000'),
            ('unstable', '--rate 700/s'),
            ('are more than', '--rate 1e-9/s'),
            ('from 3100', '--rate 1/s --requests 3099'),
            ('from 0', '--rate 1/s --seed -1'),
            ('--beside', '--rate 1/s --beside 3/2'),
            ('give --split', '--rate 1/s --vcpus 2 --beside 9/900'),
            ('admitted up to 1', '--rate 1/s --vcpus 2 --split '
             '--beside 601/2000'),
            ('is for --link', '--rate 1/s --bucket 1B'),
            ('unstable', '--rate 400/s --link 1Mbit --request-size 1KiB'),
            ('unstable', '--rate 1400/s --vcpus 2'),
            ('unstable', '--rate 1400/s --vcpus 2 --split'),
        ):  # fmt: skip
            self.assert_refused(text, f'{LINE} {more}')

    def agrees(self, said, slack=0.0):
        """Each simulated value is where the model says, in its interval.

        :param slack: what the simulation may be off by itself, in seconds
        """
        for name in NAMES:
            one = said[name]
            self.assertLess(one['Low'] - slack, one['Model'])
            self.assertLess(one['Model'], one['High'] + slack)
            # Narrow enough to mean something.
            self.assertLess(one['High'] - one['Low'] + slack, one['Model'] / 3)

    def test_several_cpus(self):
        """With the shortest periods they are those of the model."""
        line = (
            'simulate --reservation 70/100 --service-time 2ms --vcpus 3 '
            '--rate 800/s --requests 200000 --seed 5'
        )
        shared, split = self.ask(line), self.ask(f'{line} --split')
        self.assertEqual('M/M/3', shared['Model'])
        self.assertEqual('3 x M/M/1', split['Model'])
        for said in (shared, split):
            self.agrees(said, 30e-6)
            self.assertEqual(3, said['vCPUs'])
        # Not by chance: one queue is better by far.
        self.assertLess(
            shared['Mean']['High'] * 1.5, split['Mean']['Simulated']
        )
        model = self.ask(
            'latency --reservation 70/100 --service-time 2ms --vcpus 3 '
            '--rate 800/s --overhead 0us'
        )
        for name in NAMES:
            self.assertAlmostEqual(model[name], shared[name]['Model'])

    def test_theorem_on_several_cpus(self):
        """It is about one CPU, so about each of several queues."""
        line = f'{LINE} --rate 1200/s --vcpus 3 --requests 30000'
        for place, least, most in (
            ('', -6e-4, 0),
            ('--late', 5.9e-4, 6e-4),
            ('--beside 599/2000', 1e-5, 6e-4),
        ):
            said = self.ask(f'{line} --split {place}')
            self.assertAlmostEqual(most, said['Latest']['Allowed'])
            self.assertLessEqual(least, said['Latest']['After fluid'])
            self.assertTrue(said['Latest']['Within'])
            self.assertIsNotNone(said['Mean']['Safe'])
        for place in ('', '--late'):
            said = self.ask(f'{line} {place}')
            self.assertIsNone(said['Latest'])
            self.assertIsNone(said['Mean']['Safe'])
        result = self.run_it(line)
        self.assertNotIn('theorem', result.out)
        self.assertNotIn('safe', result.out)

    def test_later_than_the_theorem(self):
        """That would be a fault, and is one of the exit code."""
        for more in ('', '--vcpus 2 --split'):
            line = f'{LINE} --rate 400/s --requests 3100 {more}'
            with mock.patch.object(
                judged, 'latest_ns', return_value=fractions.Fraction(1, 2)
            ):
                result = self.run_it(f'{line} -f json')
            self.assertEqual(1, result.code)
            self.assertFalse(result.data['Latest']['Within'])

    def test_link(self):
        """The tandem, if the bucket is nothing and the period short."""
        line = (
            'simulate --reservation 70/100 --service-time 2ms --rate 200/s '
            '--link 4Mbit --request-size 1000B --requests 200000'
        )
        said = self.ask(f'{line} --bucket 1bit')
        self.assertEqual('tandem', said['Model'])
        self.assertAlmostEqual(0.4, said['Link']['Load'])
        self.agrees(said, 30e-6)
        self.assertTrue(said['Latest']['Within'])
        # What the link adds is more than the interval.
        plain = self.ask(
            'simulate --reservation 70/100 --service-time 2ms --rate 200/s '
            '--requests 200000'
        )
        self.assertLess(plain['Mean']['High'], said['Mean']['Low'])
        frame = self.ask(line)
        self.assertAlmostEqual(1514 * 8 / 4e6, frame['Link']['Ahead'])
        saved = said['Mean']['Simulated'] - frame['Mean']['Simulated']
        self.assertTrue(5e-4 < saved < frame['Link']['Ahead'], saved)
        # A bucket that is never empty is no link.
        much = self.ask(f'{line} --bucket 1e14bit')
        self.assertAlmostEqual(
            plain['Mean']['Simulated'], much['Mean']['Simulated'], 9
        )
        bound = self.ask(f'{line} --conservative')
        self.assertLess(frame['p99']['Model'], bound['p99']['Model'])
        self.assertEqual(frame['p99']['High'], bound['p99']['High'])

    def test_for_people(self):
        result = self.run_it(f'{LINE} --rate 400/s --requests 5000')
        self.assertIn(', model ', result.out)
        self.assertIn('what the theorem allows', result.out)
        self.assertLess(max(map(len, result.out.splitlines())), 80)
