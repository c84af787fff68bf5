# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.manage.flavor."""

import shlex
import types

from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import flavors
from nova_rt.reservation.bounds import Bounds
from nova_rt.tests.fixtures import manage

BASE = ('--reservation=1400/2000', '--vcpus=2')


def properties(command):
    """The flavor's name and extra specs, as openstack would read them."""
    words = shlex.split(command)
    pairs = [
        words[i + 1]
        for i, word in enumerate(words)
        if word == '--property'
    ]  # fmt: skip
    return words[3], dict(pair.split('=', 1) for pair in pairs)


class SpecsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.flags = self.useFixture(config.Config(self.conf)).config

    def specs(self, *words):
        return manage.run(self.conf, 'flavor', 'specs', *words)

    def assert_judged_good(self, specs, vcpus):
        flavor = types.SimpleNamespace(
            flavorid='f', name='f', vcpus=vcpus, extra_specs=specs
        )
        allowed = Bounds.from_options(self.conf.nova_rt)
        self.assertIsNone(flavors.judge(flavor, allowed))

    def assert_refused(self, text, *words):
        result = self.specs(*words)
        self.assertEqual((2, ''), (result.code, result.out))
        self.assertEqual(1, result.err.count('\n'), result.err)
        self.assertIn(text, result.err)

    def test_exact(self):
        result = self.specs(
            *BASE, '--enforcement=limit', '--name=rt.small', '--ram=128',
            '--disk=1',
        )  # fmt: skip
        self.assertEqual(
            'openstack flavor create rt.small --vcpus 2 --ram 128 --disk 1 '
            '--property rt:reservation=1400/2000 '
            '--property rt:enforcement=limit '
            '--property resources:CUSTOM_RT_BANDWIDTH=1400000 '
            '--property resources:VCPU=0 '
            '--property trait:CUSTOM_RT_LIMIT=required\n',
            result.out,
        )
        self.assertEqual((0, ''), (result.code, result.err))

    def test_judge_finds_nothing(self):
        """Whatever is asked for, the flavor passes `upgrade check`."""
        for vcpus in (1, 2, 7, 999):
            for reservation in ('2/1000', '333/1000', '1000/1000',
                                '999999/1000000'):  # fmt: skip
                for more in ((), ('--enforcement=limit', '--policy=fifo'),
                             ('--priority=99', '--policy=other')):  # fmt: skip
                    result = self.specs(
                        f'--reservation={reservation}', f'--vcpus={vcpus}',
                        *more,
                    )  # fmt: skip
                    self.assertEqual(0, result.code, result.err)
                    _, specs = properties(result.out)
                    self.assertEqual(reservation, specs['rt:reservation'])
                    self.assert_judged_good(specs, vcpus)

    def test_existing(self):
        """Its specs of ours are replaced, and those in surplus removed."""
        had = {
            'hw:cpu_realtime': 'no',
            'rt:reservation': '1/2000',
            'rt:priority': '50',
            'rt:policy': 'fifo',
            'rt:enforcement': 'limit',
            'resources:CUSTOM_RT_BANDWIDTH': '7',
            'resources:PCPU': '0',
            'trait:CUSTOM_RT_LIMIT': 'required',
        }
        result = self.specs(*BASE, '--existing', '--name=old')
        change, _, strip = result.out.splitlines()
        name, specs = properties(change)
        self.assertEqual('old', name)
        words = shlex.split(strip.removeprefix('# '))
        self.assertEqual(['openstack', 'flavor', 'unset', 'old'], words[:4])
        for key in words[5::2]:
            had.pop(key, None)
        had.update(specs)
        self.assert_judged_good(had, 2)
        self.assertEqual('1', had['rt:priority'])
        self.assertEqual('guarantee', had['rt:enforcement'])
        self.assertNotIn('trait:CUSTOM_RT_LIMIT', had)

    def test_runs_in_a_shell_as_it_is(self):
        name = 'it\'s $(reboot) `x` "y" \\ ; & | > *'
        out = self.specs(*BASE, '--name', name).out
        self.assertEqual(name, properties(out)[0])
        self.assertEqual(1, out.count('\n'))

    def test_refused(self):
        for text, *words in (
            ('not a reservation', '--reservation=x', '--vcpus=2'),
            ('exceeds', '--reservation=2500/2000', '--vcpus=2'),
            ('--vcpus', '--reservation=1400/2000', '--vcpus=0'),
            ('--vcpus', '--reservation=1400/2000', '--vcpus=\u0662'),
            ('--vcpus', '--reservation=1400/2000', '--vcpus=1000'),
            ('rt:enforcement', *BASE, '--enforcement=hope'),
            ('rt:policy', *BASE, '--policy=\x1b[2J'),
            ('rt:priority', *BASE, '--priority=100'),
            ('--ram', *BASE, '--ram=-1'),
            ('--disk', *BASE, '--disk=1G'),
            ('name', *BASE, '--name='),
            ('name', *BASE, '--name', 'x' * 256),
            ('name', *BASE, '--name=-v'),
            ('name', *BASE, '--name', 'a\nb'),
            ('name', *BASE, '--name', ' a'),
            ('--existing', *BASE, '--existing'),
            ('--ram', *BASE, '--existing', '--name=a', '--ram=1'),
        ):
            self.assert_refused(text, *words)

    def test_bounds_of_the_cloud(self):
        self.flags(group='nova_rt', min_period_us=5000)
        self.assert_refused('5000', *BASE)
