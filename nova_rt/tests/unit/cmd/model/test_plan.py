# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.model.plan and planfile."""

import fixtures

from nova_rt.model import trace
from nova_rt.reservation import admission
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures.requests import ask, claim
from nova_rt.tests.unit.cmd.model import base

HOSTS = 'hosts: [{cpus: 4}]\n'


def services(*lines):
    return 'services:\n' + ''.join(f'- {{{line}}}\n' for line in lines)


def file(*lines):
    return HOSTS + services(*lines)


class PlanTest(base.TestCase):
    def plan(self, data, more='', code=0):
        result = self.run_it(
            f'plan -f json {more}', self.write('x.yaml', data)
        )
        self.assertEqual((code, ''), (result.code, result.err))
        return result.data

    def refused(self, text, data):
        self.assert_refused(text, 'plan', self.write('x.yaml', data))

    def test_fits(self):
        said = self.plan(
            file(
                'name: web, rate: 500/s, service-time: 1ms, deadline: 20ms, '
                'percentile: 99, latency: 0.1ms, count: 2',
                'name: ims, reservation: 1400/2000, vcpus: 2',
                'reservation: 200/1000',
            )
        )
        self.assertIs(True, said['Fits'])
        self.assertEqual(
            {'web-1', 'web-2', 'ims', 'service-3'},
            {place['Server'] for place in said['Places']},
        )
        self.assertEqual(4, said['Servers'])
        self.assertAlmostEqual(2 * 0.74077 + 1.4 + 0.2, said['Bandwidth'])
        self.assertAlmostEqual(3.8, said['Capacity'])
        self.assertEqual(1, said['Hosts needed'])
        (web,) = {
            place['Reservation']
            for place in said['Places']
            if place['Server'].startswith('web')
        }
        sized = self.ask(
            'reservation --rate 500/s --service-time 1ms --deadline 20ms '
            '--percentile 99 --latency 0.1ms --max-bandwidth 95'
        )
        self.assertEqual(sized['Reservation'], web)

    def test_places_are_those_of_the_hosts(self):
        """Servers that are created in turn get these CPUs."""
        data = 'hosts: [{name: h, count: 3, cpus: "2-5"}]\n' + services(
            'name: a, reservation: 600/1000, count: 5',
            'name: b, reservation: 300/1000, vcpus: 3, count: 4',
            'name: c, reservation: 450/1000, vcpus: 2, count: 4',
        )
        for heuristic in admission.Placement:
            said = self.plan(data, f'--placement {heuristic}')
            self.assertEqual(str(heuristic), said['Placement'])
            free = {}
            for place in sorted(said['Places'], key=lambda p: p['Turn']):
                host = free.setdefault(
                    place['Host'],
                    admission.Capacity(
                        dict.fromkeys(range(2, 6), 950_000),
                        placement=heuristic,
                    ),
                )
                ppm = Reservation.parse(place['Reservation']).ppm
                cpus = admission.place(host, ask(place['vCPUs'], ppm))
                self.assertEqual(list(cpus), place['CPUs'])
                free[place['Host']] = host.free([claim(cpus, ppm)])
            self.assertEqual(13, len(said['Places']))

    def test_does_not_fit(self):
        data = file('name: a, reservation: 600/1000, count: 6')
        said = self.plan(data, code=1)
        self.assertIs(False, said['Fits'])
        self.assertEqual(4, said['Servers'])
        self.assertEqual(2, len(said['Without a place']))
        self.assertEqual(2, said['Hosts needed'])
        self.assertEqual(2, said['At least'])
        said = self.plan(file('vcpus: 5, reservation: 2/1000'), code=1)
        self.assertIsNone(said['Hosts needed'])

    def test_sized_as_by_the_command(self):
        """With the same options under the same names."""
        self.useFixture(fixtures.MockPatchObject(trace, 'REQUESTS', 31 * 500))
        path = self.write('times.csv', 'a,b\n' + '1,0.5\n1,2\n' * 30)
        needs = 'rate: 257/100ms, deadline: 9ms, percentile: 99'
        for more in (
            'service-time: 0.2ms, arrivals: periodic, jitter: 1ms, batch: 2',
            'service-time: 0.2ms, vcpus: 2, split: true, polling: true',
            'service-time: 0.2ms, wake-up: 3us, distribution: constant',
            f'vcpus: 8, split: true, measured: {path}, csv-column: b, '
            'csv-unit: ms',
        ):
            said = self.plan(HOSTS.replace('4', '8') + services(
                f'{needs}, {more}'))  # fmt: skip
            words = f'{needs}, {more}'.replace(': true', '')
            options = ' --'.join(words.replace(':', '').split(', '))
            found = self.ask(f'reservation --{options} --max-bandwidth 95')
            self.assertEqual(
                found['Reservation'], said['Places'][0]['Reservation']
            )

    def test_order_of_the_file(self):
        """A small one that comes first keeps the large ones out."""
        data = 'hosts: [{cpus: 1}]\n' + services(
            'name: small, reservation: 100/1000',
            'name: large, reservation: 900/1000',
        )
        said = self.plan(data, '--keep-order', code=1)
        self.assertEqual(['small'], [p['Server'] for p in said['Places']])
        said = self.plan(data, code=1)
        self.assertEqual(['large'], [p['Server'] for p in said['Places']])

    def test_for_people(self):
        path = self.write('x.yaml', file('reservation: 600/1000, count: 5'))
        result = self.run_it('plan', path)
        self.assertEqual((1, ''), (result.code, result.err))
        self.assertIn('host-1 3: service-1-4 600/1000', result.out)
        self.assertIn('service-1-5: 1 x 600/1000', result.out)

    def test_several_kinds(self):
        said = self.plan(
            'hosts:\n'
            '- {name: small, cpus: 2, capacity: 50%}\n'
            '- {name: large, cpus: 0-3, capacity: 100}\n'
            + services('name: a, reservation: 1000/1000, vcpus: 4')
        )
        self.assertEqual('large', said['Places'][0]['Host'])
        self.assertAlmostEqual(5.0, said['Capacity'])
        self.assertEqual(1, said['At least'])

    def test_needs_are_bounded_by_the_hosts(self):
        """More than a host has is refused, with what it has."""
        line = (
            'name: a, rate: 500/s, service-time: 1ms, deadline: 10ms, '
            'percentile: 99'
        )
        self.refused('service 1 (a): ', file(line))
        self.refused('with 95 % of a CPU', file(line))
        self.plan('hosts: [{cpus: 1, capacity: 100}]\n' + services(line))

    def test_wrong(self):
        good = 'name: a, reservation: 2/1000'
        needs = (
            'name: a, rate: 5/s, service-time: 1ms, deadline: 90ms, '
            'percentile: 99'
        )
        self.plan(file(needs))
        for text, data in (
            ('the file is empty', ''),
            ('the file is empty', '# nothing\n'),
            ('the file is a list', '[1]'),
            ("the file is 'x'", 'x'),
            ('the file has no services', HOSTS),
            ('the file has no hosts', services(good)),
            ('services: it is empty', HOSTS + 'services: []\n'),
            ('services: it is empty', HOSTS + 'services:\n'),
            ('services: it is 3', HOSTS + 'services: 3\n'),
            ('service 2 is empty', file(good) + '-\n'),
            ("the file has 'more'", file(good) + 'more: 1\n'),
            ("service 1 has 'nmae'", file('nmae: a')),
            ('service 1 has 1', file('1: a')),
            ('is there twice', file('name: a, name: b')),
            ('is there twice', file(good) + HOSTS),
            ('service 1 (a) has both', file(f'{good}, rate: 5/s')),
            ('service 1 (a) has both', file(f'{good}, link: 5Mbit')),
            ('service 1 (a) has no rate', file('name: a')),
            ('service 1 (a) has no percentile',
             file(needs.replace(', percentile: 99', ''))),
            ('service 1 (a), rate: ', file(needs.replace('5/s', '5'))),
            ('service 1 (a), rate: ', file(needs.replace('5/s', '-5/s'))),
            ('service 1 (a), rate: ', file(needs.replace('5/s', '[5]'))),
            ('service 1 (a), rate: ', file(needs.replace('5/s', 'yes'))),
            ('service 1 (a), rate: ', file(needs.replace('5/s', '.inf'))),
            ('highest rate', file(needs.replace('5/s', '5000/s'))),
            ('service 1 (a), service-time',
             file(needs.replace('1ms', '1e309ms'))),
            ('shortest deadline is', file(f'{needs}, latency: 60ms')),
            ('service 1 (a), percentile', file(needs.replace('99', '100'))),
            ('service 1 (a), percentile', file(needs.replace('99', '.nan'))),
            ('go together', file(f'{needs}, link: 5Mbit')),
            ('give --split', file(f'{needs}, vcpus: 2, batch: 2')),
            ('true or false', file(f'{needs}, split: 1')),
            ('one of poisson, periodic', file(f'{needs}, arrivals: x.csv')),
            ('either', file(f'{needs}, measured: x.csv')),
            ('one of exponential, constant',
             file(f'{needs}, distribution: measured')),
            ('whole number of micro', file(f'{needs}, period: 1.5us')),
            ('service 1 (a), reservation: ',
             file('name: a, reservation: 3/2')),
            ('service 1 (a), reservation: ',
             file('name: a, reservation: 2001-01-01')),
            ('service 1 (a), count: ', file(f'{good}, count: 0')),
            ('service 1 (a), count: ', file(f'{good}, count: true')),
            ('service 1 (a), count: ', file(f'{good}, count: 1.5')),
            ('service 1 (a), count: ', file(f'{good}, count: {10**30}')),
            ('service 1 (a), vcpus: ', file(f'{good}, vcpus: 1000')),
            ('service 1, name: ', file('name: 1.5, reservation: 2/1000')),
            ('service 1, name: ', file('name: "a b", reservation: 2/1000')),
            ('service 1, name: ', file(f'name: {"a" * 64}')),
            ('two servers are named a-1',
             file(f'{good}, count: 2', 'name: a-1, reservation: 2/1000')),
            ('two hosts are named h',
             'hosts: [{name: h, cpus: 1}, {name: h, cpus: 1}]\n'
             + services(good)),
            ('host 1 has no cpus', 'hosts: [{name: h}]\n' + services(good)),
        ):  # fmt: skip
            self.refused(text, data)

    def test_wrong_hosts(self):
        for text in ('0', '-1', '1025', '1.5', 'x', '""', '9-2', '0-2000',
                     f'0-{"9" * 30}', '[1]', 'true', 'null'):  # fmt: skip
            self.refused(
                'host 1, cpus: ', f'hosts: [{{cpus: {text}}}]\n'
                + services('reservation: 2/1000'),
            )  # fmt: skip
        for text in ('0', '101', '-5', '.nan', '.inf', 'x', '1e1', 'yes',
                     '0.0000000001', '[5]'):  # fmt: skip
            self.refused(
                'host 1, capacity: ',
                f'hosts: [{{cpus: 1, capacity: {text}}}]\n'
                + services('reservation: 2/1000'),
            )

    def test_hostile(self):
        for text, data in (
            ('not YAML', '{'),
            ('not YAML', 'a: b: c'),
            ('not YAML', b'\xff\xff\xff'),
            ('not YAML', 'a: \0'),
            ('not YAML', '!!python/object/apply:os.system ["echo owned"]'),
            ('not YAML', '!unknown x'),
            ('not YAML', '? [1, 2]\n: 3\n'),
            ('not YAML', 'hosts: ' + '9' * 6000),
            ('not YAML', '--- 1\n--- 2\n'),
            ('not YAML', 'hosts: !!int ""'),
            ('not YAML', 'hosts: !!bool maybe'),
            ('not YAML', 'hosts: !!timestamp now'),
            ('nested too deeply', '[' * 1_000_000),
            ('nested too deeply', '{a: ' * 500_000),
            ('nested too deeply', '- ' * 100_000),
            ('has an alias', '&a [*a]'),
            ('has an alias', 'a: &a {x: 1}\nb: &b {<<: [*a, *a]}\n'),
            ('longer than', ' ' * 5_000_000),
            ('take too long', 'hosts: [{cpus: 1, count: 5000}]\n'
             + services('reservation: 2/1000, count: 20000')),
            ('more than 20000 servers',
             file(*['reservation: 2/1000, count: 20000'] * 2)),
        ):  # fmt: skip
            self.refused(text, data)
        self.refused('\\x1b', 'hosts: "\\e]0;x\\a"\nservices: 3\n')
        self.assert_refused('No such file', 'plan /nowhere')
        self.assert_refused('directory', 'plan', str(self.directory))
        self.assert_refused('longer than', 'plan /dev/zero')
