# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.ask."""

import io
import json
import shlex
from unittest import mock

import fixtures
from oslo_config import cfg

from nova_rt import conf as nova_rt_conf
from nova_rt.model import guarantee, trace
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import manage
from nova_rt.tests.unit.cmd.model import base

SERVICE = '--service-time 1ms --latency 0.1ms'
GOAL = '--deadline 20ms --percentile 99'


class AskTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(trace, 'REQUESTS', 31 * 4000))

    def test_reservation(self):
        """The example of the manual, with the numbers of the formula."""
        said = self.ask(f'reservation --rate 500/s {SERVICE} {GOAL}')
        self.assertEqual('963/1300', said['Reservation'])
        self.assertEqual('M/M/1', said['Model'])
        self.assertEqual(1, said['vCPUs'])
        bandwidth = 958 / 1300
        rate = bandwidth / 1e-3 - 500
        self.assertAlmostEqual(2e-4 + 1 / rate, said['Mean'])
        self.assertAlmostEqual(2e-4 + 4.605170 / rate, said['p99'])
        self.assertAlmostEqual(1.3e-3 * (1 - bandwidth), said['Gap'])
        self.assertAlmostEqual(said['Gap'] / 2, said['Shift'])
        self.assertLessEqual(said['p99'] + said['Gap'], 0.02)
        self.assertLessEqual(0.99, said['In time'])
        self.assertIsNone(said['Caution'])

    def test_each_from_the_others(self):
        """The answer of one command holds in the others."""
        for more in (
            '',
            '--distribution constant',
            '--vcpus 2',
            '--link 64Mbit --request-size 2KiB',
            '--link 64Mbit --request-size 2KiB --conservative',
        ):
            about = f'{SERVICE} {more}'
            found = self.ask(f'reservation --rate 500/s {about} {GOAL}')
            about += f' --reservation {found["Reservation"]}'
            rate = self.ask(f'rate {about} {GOAL}')
            self.assertLessEqual(500, rate['Rate'])
            # A runtime has whole microseconds.
            self.assertLess(rate['Rate'], 505)
            deadline = self.ask(
                f'deadline --rate 500/s {about} --percentile 99'
            )
            self.assertLessEqual(deadline['Deadline'], 0.02)
            self.assertAlmostEqual(
                deadline['p99'] + deadline['Gap'], deadline['Deadline']
            )
            latency = self.ask(f'latency --rate 500/s {about} --deadline 20ms')
            self.assertAlmostEqual(found['In time'], latency['In time'])
            for same in ('Mean', 'p50', 'p90', 'p99', 'p99.9', 'Flavor'):
                self.assertEqual(deadline[same], latency[same])

    def test_mean_alone(self):
        about = f'latency --rate 200/s {SERVICE} --reservation'
        self.assertIsNotNone(self.ask(f'{about} 2500/5000')['Mean alone'])
        self.assertIsNone(self.ask(f'{about} 25000/50000')['Mean alone'])
        result = self.run_it(f'{about} 25000/50000')
        self.assertNotIn('Mean alone', result.out)
        self.assertIn('Safe mean', result.out)

    def test_for_people(self):
        result = self.run_it(f'rate {SERVICE} {GOAL} --reservation 744/1000')
        self.assertEqual((0, ''), (result.code, result.err))
        # Never more than it can bear, never less than it takes.
        self.assertIn('| 503.3/s ', result.out)
        self.assertIn('| 130.5 us ', result.out)
        self.assertLess(max(map(len, result.out.splitlines())), 80)

    def test_flavor(self):
        """It can be copied from the table into a shell."""
        line = f'reservation --rate 500/s {SERVICE} {GOAL} --vcpus 3'
        shown = [
            row.split('|')[2].strip()
            for row in self.run_it(line).out.splitlines()
            if '|' in row
        ]
        start = next(at for at, row in enumerate(shown) if 'openstack' in row)
        self.assertEqual(
            shlex.split(self.ask(line)['Flavor']),
            shlex.split(''.join(shown[start:]).replace('\\', ' ')),
        )

    def test_existing_flavor(self):
        """The commands are those of nova-rt-manage."""
        conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(conf)
        for vcpus in (1, 3):
            line = f'reservation --rate 500/s {SERVICE} {GOAL}'
            said = self.ask(f'{line} --vcpus {vcpus}')
            words = (
                'flavor', 'specs', f'--reservation={said["Reservation"]}',
                f'--vcpus={vcpus}',
            )  # fmt: skip
            made = manage.run(conf, *words)
            self.assertEqual(made.out, said['Flavor'] + '\n')
            changed = manage.run(conf, *words, '--existing', '--name=FLAVOR')
            self.assertEqual(changed.out, said['Flavor set'] + '\n')
            self.assertNotIn('Flavor set', self.run_it(line).out)
            shown = self.run_it(f'{line} -f value -c "Flavor set"').out
            self.assertIn('openstack flavor set FLAVOR', shown)

    def test_safe(self):
        """Longer by P - Q than on a CPU that is always there."""
        for more in ('', '--vcpus 2', '--distribution constant'):
            said = self.ask(
                f'latency --rate 500/s {SERVICE} {more} '
                '--reservation 748/1000 --percentile 99.99'
            )
            for name in ('mean', 'p50', 'p90', 'p99', 'p99.9', 'p99.99'):
                expected = said[name.replace('mean', 'Mean')]
                self.assertAlmostEqual(
                    expected + said['Gap'], said[f'Safe {name}']
                )
            self.assertIn(
                'not proved' if 'vcpus' in more else 'Safe: the gap is proved',
                said['How sure'],
            )

    def test_the_same_keys(self):
        """Whatever is asked, and whatever is known."""
        path = self.write('times.csv', '1ms\n' * 2000)
        for command, about in (
            ('reservation', f'--rate 300/s {GOAL}'),
            ('rate', f'{GOAL} --reservation 748/1000'),
            ('deadline', '--rate 300/s --percentile 99 '
             '--reservation 748/1000'),
            ('latency', '--rate 300/s --reservation 748/1000'),
        ):  # fmt: skip
            keys = list(self.ask(f'{command} {about} {SERVICE}'))
            others = [
                f'{about} {SERVICE} {more}'
                for more in (
                    '--vcpus 2',
                    '--link 64Mbit --request-size 1KiB',
                    '--distribution constant',
                )
            ] + [f'{about} --measured {path}']
            if command == 'reservation':
                others.append(
                    '--rate 300/s --deadline 20ms --burst 3 --longest 2ms'
                )
            for other in others:
                self.assertEqual(keys, list(self.ask(f'{command} {other}')))

    def test_period(self):
        """The answer says why a period was chosen."""
        line = f'reservation --rate 500/s {SERVICE} {GOAL}'
        for text, pair, more in (
            ('1.3 ms needs the least', '963/1300', ''),
            ('5 ms was asked for', '3747/5000', '--period 5ms'),
            ('9 ms is the shortest', '/9000', '--min-period 9ms'),
            ('1.1 ms is the longest', '/1100', '--max-period 1.1ms'),
            ('needs the least', '/', '--overhead 50us'),
        ):
            said = self.ask(f'{line} {more}')
            self.assertIn(text, said['Period'])
            part = 100 * said['Gap'] / 0.02
            self.assertIn(f'{part:.2g} % of the deadline', said['Period'])
            self.assertIn(pair, said['Reservation'])
        self.assertIn(
            'The gap is 12 % of the deadline',
            self.ask(f'{line} --period 10ms')['Caution'],
        )
        said = self.ask(
            'reservation --rate 1000/s --service-time 0.1ms --deadline 1ms '
            '--percentile 99'
        )
        self.assertIn('With --min-period 100us, ', said['Period'])
        said = self.ask(
            'reservation --rate 100/s --service-time 0.1ms --deadline 100ms '
            '--percentile 99'
        )
        self.assertIn('P - Q of at most 5 %', said['Period'])
        self.assertTrue(0.0045 < said['Gap'] <= 0.005 + 5e-6)

    def test_no_request_late(self):
        line = (
            'reservation --rate 300/s --deadline 20ms --latency 0.1ms '
            '--burst 5 --longest 2ms'
        )
        said = self.ask(line)
        self.assertEqual('6006/10000', said['Reservation'])
        self.assertLessEqual(said['Never above'], 0.02)
        # With what is left after the overhead.
        bound = guarantee.delay_ns(
            guarantee.Arrivals.of(5, 300, 2e-3), Reservation(6001, 10_000)
        )
        self.assertAlmostEqual(bound / 1e9 + 2e-4, said['Never above'])

    def test_bound_beside_the_percentile(self):
        about = '--rate 300/s --service-time 1ms --burst 5 --longest 1.5ms'
        said = self.ask(f'reservation {about} {GOAL}')
        reservation = said['Reservation']
        for line in (
            f'latency {about} --reservation {reservation}',
            f'deadline {about} --reservation {reservation} --percentile 99',
        ):
            again = self.ask(line)
            self.assertEqual(said['Never above'], again['Never above'])
        about = about.replace('1.5ms', '2ms')
        self.assertIsNone(
            self.ask(f'latency {about} --reservation 599/1000')['Never above']
        )

    def test_cautions(self):
        line = f'latency --rate 500/s {SERVICE} --reservation '
        for text, more in (
            ('The gap is', '35000/50000'),
            ('95 %', '990/1000'),
            ('link is used', '744/1000 --link 8Mbit --request-size 1500B'),
        ):
            self.assertIn(text, self.ask(line + more)['Caution'])

    def test_link(self):
        """Commands that hold the link, no slower than it was asked about."""
        line = (
            f'latency --rate 500/s {SERVICE} --reservation 748/1000 '
            '--request-size 2KiB --link '
        )
        said = self.ask(f'{line} 64000.1kbit')['Link']
        policy, rule, port = map(shlex.split, said.splitlines())
        name = policy[-1]
        self.assertEqual(
            ['openstack', 'network', 'qos', 'policy', 'create', name], policy
        )
        self.assertEqual(
            ['openstack', 'network', 'qos', 'rule', 'create', name,
             '--type', 'bandwidth-limit', '--ingress',
             '--max-kbps', '64001', '--max-burst-kbits', '525'],
            rule,
        )  # fmt: skip
        self.assertEqual(
            ['openstack', 'port', 'set', 'PORT', '--qos-policy', name], port
        )
        shown = self.run_it(f'{line} 64000.1kbit -f value -c Link').out
        self.assertEqual(said, shown.strip())
        table = self.run_it(f'{line} 64000.1kbit').out
        self.assertLess(max(map(len, table.splitlines())), 80)
        self.assertIn('| openstack network qos rule create ', table)
        self.assertIsNone(self.ask(line.partition('--request')[0])['Link'])

    def test_burst_of_a_link(self):
        """More for a link that is nearly full, or hardly ever may lose."""
        line = (
            'latency --rate 900/s --service-time 0.1ms --link 8Mbit '
            '--request-size 1KB --reservation 744/1000'
        )
        # 8000 bit x ln(1000) / (1 - 0.9)
        self.assertIn('--max-burst-kbits 553\n', self.ask(line)['Link'])
        more = self.ask(f'{line} --percentile 99.9')['Link']
        self.assertIn('--max-burst-kbits 737\n', more)
        self.ask(f'{line} --percentile 99.99999999999999')

    def test_link_that_needs_no_rule(self):
        line = f'latency --rate 500/s {SERVICE} --reservation 748/1000'
        line += ' --request-size 2KiB --link 3000Gbit'
        self.assertIsNone(self.ask(line)['Link'])
        self.assertIn('no rule: ', self.run_it(line).out)

    def test_measured(self):
        path = self.write('times.csv', '1ms\n' * 2000)
        said = self.ask(
            f'reservation --rate 500/s --latency 0.1ms {GOAL} --measured',
            path,
        )
        self.assertEqual('M/G/1', said['Model'])
        # It is that of equal times, by any way.
        same = self.ask(
            'latency --rate 500/s --latency 0.1ms --service-time 1ms '
            '--distribution constant --reservation ' + said['Reservation']
        )
        for name in ('Mean', 'p99'):
            self.assertAlmostEqual(same[name], said[name])
        self.assertIn('too long by at most 0.', same['How sure'])
        few = self.write('few.csv', '1ms\n' * 50)
        said = self.ask(f'reservation --rate 500/s {GOAL} --measured', few)
        self.assertIn('at least 1000', said['Caution'])

    def test_what_was_measured_elsewhere(self):
        """The papers' registrations, which come evenly: p99 1.287 ms."""
        line = 'latency --rate 257/100ms --reservation 1400/2000 '
        line += '--service-time 0.233ms --distribution constant'
        even = self.ask(f'{line} --arrivals periodic')
        self.assertTrue(0.0009 < even['Safe p99'] < 0.00095)
        self.assertTrue(0.0008 < even['Never above'] <= even['Safe p99'])
        self.assertLess(3 * even['Safe p99'], self.ask(line)['Safe p99'])

    def test_arrivals(self):
        """Batches are slower, even ones faster, jitter in between."""
        line = f'latency --rate 500/s --reservation 748/1000 {SERVICE} '
        found = [
            self.ask(f'{line} {more}')['Safe p99']
            for more in (
                '--arrivals periodic',
                '--arrivals periodic --jitter 5ms',
                '',
                '--batch 2',
                '--batch 8',
            )
        ]
        self.assertEqual(sorted(found), found)
        split = self.ask(f'{line} --vcpus 4 --split')
        self.assertEqual('4 x M/M/1', split['Model'])
        self.assertIn('the gap is proved', split['How sure'])
        fewer = self.ask(line.replace('500/s', '125/s'))
        self.assertAlmostEqual(fewer['p99'], split['p99'])
        polling = self.ask(f'{line} --polling')
        self.assertAlmostEqual(2 * fewer['Gap'], polling['Gap'])
        self.assertIn('2 (P - Q)', polling['How sure'])
        self.assertIsNone(polling['Mean alone'])
        waking = self.ask(f'{line} --wake-up 50us')
        more = self.ask(line.replace('1ms', '1.05ms', 1))
        self.assertAlmostEqual(more['p99'], waking['p99'])

    def test_recorded(self):
        """Instants with their CPU times, or without."""
        rows = ''.join(
            f'{0.002 * each},{0.5 + each % 5 * 0.25}\n' for each in range(4000)
        )
        path = self.write('log.csv', f'at,took\n{rows}')
        line = f'latency --reservation 748/1000 --arrivals {path} '
        line += '--arrivals-unit s --arrivals-column at'
        said = self.ask(
            f'{line} --measured {path} --csv-unit ms --csv-column took '
            '--deadline 4ms'
        )
        self.assertEqual('recorded', said['Model'])
        self.assertAlmostEqual(0.5 / 0.743, said['Load'], 3)
        self.assertIn('Exact for these 4000 requests', said['How sure'])
        # 1.5 ms at 0.743 of the speed is more than the 2 ms that are there.
        self.assertTrue(2.01e-3 < said['p99'] < 2.1e-3, said['p99'])
        # The rate of the file by default; any other one if it is given.
        self.assertEqual(said['p99'], self.ask(
            f'{line} --measured {path} --csv-unit ms --csv-column took '
            '--rate 500/s')['p99'])  # fmt: skip
        drawn = self.ask(f'{line} --service-time 1ms')
        self.assertLess(said['p99'], drawn['p99'])
        self.assertIn('99.9 % confidence', drawn['How sure'])
        short = self.write('short.csv', '1ms\n' * 30)
        self.assert_refused(
            '4000 instants and 30 CPU times', f'{line} --measured {short}'
        )

    def test_if_wrong(self):
        said = self.ask(f'reservation --rate 500/s {SERVICE} {GOAL}')
        found = said['If wrong']
        self.assertLess(found['load +10%'], found['load +5%'])
        self.assertLess(found['load +5%'], said['In time'])
        self.assertLess(found['CPU times +10%'], found['CPU times +5%'])
        # As simulated from outside: 97.2 % and 29.7 %.
        self.assertAlmostEqual(
            0.972, found['rate +-30% in phases of 20 ms'], delta=0.004
        )
        self.assertAlmostEqual(
            0.297, found['rate +-80% in phases of 200 ms'], delta=0.02
        )

    def test_existing_flavor_that_is_enough(self):
        listed = [
            {'Name': 'plain', 'VCPUs': 1, 'Properties': {}},
            {'Name': 'two', 'VCPUs': 2, 'Properties':
             {'rt:reservation': '990/1000'}},
            {'Name': 'large', 'VCPUs': 1, 'Properties':
             {'rt:reservation': '900/1000'}},
            {'Name': 'right', 'VCPUs': 1, 'Properties':
             "a='b', rt:reservation='800/1000', c='d'"},
            {'Name': 'small', 'VCPUs': 1, 'Properties':
             {'rt:reservation': '700/1000'}},
            {'Name': 'broken', 'VCPUs': 1, 'Properties':
             {'rt:reservation': '7/x'}},
            {'Name': 'used up', 'VCPUs': 1, 'Properties':
             {'rt:reservation': '4/1000'}},
            7,
        ]  # fmt: skip
        path = self.write('flavors.json', json.dumps(listed))
        line = f'reservation {SERVICE} {GOAL} --flavors {path}'
        found = self.ask(f'{line} --rate 500/s')['Existing flavor']
        self.assertEqual('right', found['Name'])
        self.assertLess(550, found['Rate'])
        self.ask(f'latency {SERVICE} --rate {found["Rate"]}/s '
                 '--reservation 800/1000')  # fmt: skip
        shown = self.run_it(f'{line} --rate 700/s').out
        self.assertIn('none of 4 is enough', shown)
        self.assertIn('large', shown)
        shown = self.run_it(f'{line} --rate 500/s --vcpus 3').out
        self.assertIn('none of 5 has 3 vCPUs', shown)
        with mock.patch('sys.stdin', io.StringIO(json.dumps(listed))):
            line = f'reservation {SERVICE} {GOAL} --rate 500/s --flavors -'
            self.assertEqual(
                'right', self.ask(line)['Existing flavor']['Name']
            )
        for text, data in (
            ('--long', '[]'), ('--long', '[{"Name": "x"}]'), ('no list', '{'),
            ('no list', '{}'), ('no list', '[' * 10**5), ('no list', b'\xff'),
        ):  # fmt: skip
            self.assert_refused(
                text, f'reservation {SERVICE} {GOAL} --rate 5/s --flavors',
                self.write('bad.json', data),
            )  # fmt: skip

    def test_vcpus_compared(self):
        said = self.ask(
            f'reservation --rate 1500/s {SERVICE} {GOAL} --vcpus 2 '
            '--compare-vcpus'
        )
        found = said['Other vCPUs']
        self.assertIsNone(found['1'])
        self.assertEqual(said['Reservation'], found['2'])
        self.assertLess(
            Reservation.parse(found['8']).ppm,
            Reservation.parse(found['4']).ppm,
        )
