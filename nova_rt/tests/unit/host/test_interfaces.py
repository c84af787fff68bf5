# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.host.interfaces."""

from oslotest import base

from nova_rt.host import interfaces
from nova_rt.host.interfaces import Held, Share
from nova_rt.privsep import cgroup

RUNTIME = 'cpu.rt_runtime_us'
PERIOD = 'cpu.rt_period_us'
MULTI = 'cpu.rt_multi_runtime_us'
MAX = 'cpu.rt.max'


class TableTest(base.BaseTestCase):
    def test_names(self):
        """The names are published; they are those of the documentation."""
        self.assertEqual(
            {
                'v1-throttle': ('limit', 'host'),
                'v1-hcbs-multi': ('guarantee', 'cpu'),
                'v2-hcbs-scalar': ('guarantee', 'host'),
                'v2-hcbs-multi': ('guarantee', 'cpu'),
                'v2-rt-max': ('guarantee', 'host'),
                'v2-rt-max-cpu': ('guarantee', 'cpu'),
            },
            {each.name: (each.enforcement, each.scope)
             for each in interfaces.ALL},
        )  # fmt: skip

    def test_privileged_side_lets_exactly_these_through(self):
        names = {name for each in interfaces.ALL for name in each.files}
        self.assertEqual({RUNTIME, PERIOD, MULTI, MAX}, names)
        for name in names:
            self.assertRegex(name, f'^(?:{cgroup._BANDWIDTH.pattern})$')


class ParseTest(base.BaseTestCase):
    def test_scalar(self):
        held = interfaces.V1_THROTTLE.parse(
            {RUNTIME: '20000', PERIOD: '50000'}
        )
        self.assertEqual(Held(Share(20000, 50000)), held)
        self.assertEqual('20000/50000 us', str(held))
        self.assertEqual(400_000, held.on(3))

    def test_scalar_without_bound(self):
        held = interfaces.V1_THROTTLE.parse({RUNTIME: '-1', PERIOD: '50000'})
        self.assertEqual(Held(Share(None, 50000)), held)
        self.assertEqual('max/50000 us', str(held))

    def test_one_number_per_cpu(self):
        held = interfaces.V1_HCBS_MULTI.parse(
            {MULTI: '0 600 0 600', PERIOD: '1000'}
        )
        self.assertEqual(
            Held(cpus={1: Share(600, 1000), 3: Share(600, 1000)}), held
        )
        self.assertEqual('600/1000 us on CPUs 1,3', str(held))
        self.assertEqual([0, 600_000], [held.on(0), held.on(1)])

    def test_both_numbers_per_cpu(self):
        held = interfaces.V2_HCBS_MULTI.parse(
            {RUNTIME: '300 0 500', PERIOD: '1000 0 2000'}
        )
        self.assertEqual(
            Held(cpus={0: Share(300, 1000), 2: Share(500, 2000)}), held
        )
        self.assertEqual(
            '300/1000 us on CPUs 0, 500/2000 us on CPUs 2', str(held)
        )

    def test_nothing_on_any_cpu(self):
        held = interfaces.V2_HCBS_MULTI.parse({RUNTIME: '0 0', PERIOD: '0 0'})
        self.assertEqual(Held(), held)
        self.assertEqual('0 us on every CPU', str(held))
        self.assertEqual(0, held.cost_ppm)

    def test_pair(self):
        parse = interfaces.V2_RT_MAX.parse
        self.assertEqual(Held(Share(600, 1000)), parse({MAX: '600 1000'}))
        self.assertEqual(Held(Share(None, 0)), parse({MAX: 'max 0'}))

    def test_other_formats(self):
        for interface, texts in (
            (interfaces.V1_THROTTLE, {RUNTIME: '1 2', PERIOD: '3'}),
            (interfaces.V1_THROTTLE, {RUNTIME: '', PERIOD: '3'}),
            (interfaces.V1_THROTTLE, {RUNTIME: 'x', PERIOD: '3'}),
            (interfaces.V2_HCBS_MULTI, {RUNTIME: '1 2', PERIOD: '3'}),
            (interfaces.V2_RT_MAX, {MAX: '600'}),
        ):
            self.assertRaises(ValueError, interface.parse, texts)


class RoundingTest(base.BaseTestCase):
    def test_promised_is_rounded_down_and_taken_up(self):
        share = Share(1, 3)
        self.assertEqual((333_333, 333_334), (share.ppm, share.cost_ppm))

    def test_no_bound(self):
        """It has the whole CPU, and takes nothing from the groups beside."""
        share = Share(None, 0)
        self.assertEqual((1_000_000, 0), (share.ppm, share.cost_ppm))

    def test_no_period(self):
        share = Share(0, 0)
        self.assertEqual((0, 0), (share.ppm, share.cost_ppm))


class WriteTest(base.BaseTestCase):
    def _writes(self, interface, held):
        """Lowering and raising, as for a running container."""
        wish = interface.wish(600, 1000, (1, 3))
        none = Held() if interface.per_cpu else Held(Share(0, 1000))
        self.assertEqual([], interface.lower(none, wish))
        return interface.lower(held, wish) + interface.raise_to(wish)

    def test_scalar(self):
        for interface in (interfaces.V1_THROTTLE, interfaces.V2_HCBS_SCALAR):
            self.assertEqual(
                [
                    (RUNTIME, '2'),
                    (PERIOD, '4194304'),
                    (PERIOD, '1000'),
                    (RUNTIME, '600'),
                ],
                self._writes(interface, Held(Share(5, 9))),
            )

    def test_cpus_first(self):
        """CPUs that are to be left are cleared: no other write does it."""
        self.assertEqual(
            [
                (MULTI, '1 2'),
                (MULTI, '0 0'),
                (PERIOD, '4194304'),
                (PERIOD, '1000'),
                (MULTI, '1,3 600'),
            ],
            self._writes(
                interfaces.V1_HCBS_MULTI,
                Held(cpus={0: Share(5, 9), 1: Share(5, 9)}),
            ),
        )

    def test_cpus_last(self):
        held = Held(cpus={0: Share(5, 9), 1: Share(5, 9)})
        self.assertEqual(
            [
                (RUNTIME, '2 1'),
                (PERIOD, '4194304 1'),
                (PERIOD, '1000 1,3'),
                (RUNTIME, '600 1,3'),
            ],
            self._writes(interfaces.V2_HCBS_MULTI, held),
        )

    def test_cpus_last_all_left(self):
        held = Held(cpus={0: Share(5, 9)})
        self.assertEqual(
            [(RUNTIME, '0 0'), (PERIOD, '1000 1,3'), (RUNTIME, '600 1,3')],
            self._writes(interfaces.V2_HCBS_MULTI, held),
        )

    def test_cpus_last_unequal_shares(self):
        """One write: what it does not name becomes 0."""
        wish = Held(cpus={0: Share(5, 9), 1: Share(6, 9), 2: Share(5, 9)})
        self.assertEqual(
            [(PERIOD, '9 0-2'), (RUNTIME, '5 0,2 6 1')],
            interfaces.V2_HCBS_MULTI.raise_to(wish),
        )

    def test_pair(self):
        self.assertEqual(
            [(MAX, '2 4194304'), (MAX, '600 1000')],
            self._writes(interfaces.V2_RT_MAX, Held(Share(5, 9))),
        )
        self.assertEqual(
            [(MAX, '600 1000')],
            self._writes(interfaces.V2_RT_MAX, Held(Share(None, 0))),
        )

    def test_nothing(self):
        self.assertEqual(
            [(RUNTIME, '0')],
            interfaces.V1_THROTTLE.nothing(Held(Share(5, 9))),
        )
        self.assertEqual(
            [(MULTI, '1 0')],
            interfaces.V1_HCBS_MULTI.nothing(Held(cpus={1: Share(5, 9)})),
        )
        self.assertEqual(
            [(MAX, '0 9')], interfaces.V2_RT_MAX.nothing(Held(Share(5, 9)))
        )
        self.assertEqual([], interfaces.V2_HCBS_MULTI.nothing(Held()))

    def test_unbound(self):
        self.assertEqual(
            [(MAX, 'max 9')],
            interfaces.V2_RT_MAX_CPU.unbound(Held(Share(5, 9))),
        )


class ReportTest(base.BaseTestCase):
    """Files of a kernel that says what it has; texts as it prints them."""

    def test_supply(self):
        self.assertEqual(
            {0: interfaces.Supply(900_000, 0),
             3: interfaces.Supply(900_000, 599_999)},
            interfaces.parse_supply(
                '0 ceiling_ppm=900000 reserved_ppm=0\n'
                '3 ceiling_ppm=900000 reserved_ppm=599999\n'
            ),
        )  # fmt: skip

    def test_servers(self):
        found = interfaces.parse_servers(
            '1 runtime_ns=600000 period_ns=1000000\n'
        )
        self.assertEqual({1: interfaces.Server(600_000, 1_000_000)}, found)
        self.assertEqual('600000/1000000 ns', str(found[1]))
        self.assertEqual(Share(600, 1000).kernel_bw, found[1].kernel_bw)
        self.assertEqual({}, interfaces.parse_servers(''))

    def test_usage(self):
        self.assertEqual(
            {2: interfaces.Usage(10, 4, 5500)},
            interfaces.parse_usage('2 periods=10 throttled=4 used_usec=5500'),
        )

    def test_more_than_is_known(self):
        self.assertEqual(
            {2: interfaces.Usage(10, 4, 5500)},
            interfaces.parse_usage(
                '2 periods=10 throttled=4 late=7 used_usec=5500'
            ),
        )

    def test_what_is_no_report(self):
        for text in ('', '0', '0 ceiling_ppm=1', 'a ceiling_ppm=1 '
                     'reserved_ppm=1', '0 ceiling_ppm=x reserved_ppm=1',
                     '0 ceiling_ppm 1 reserved_ppm 1'):  # fmt: skip
            self.assertRaises(ValueError, interfaces.parse_supply, text)

    def test_ppm_and_back(self):
        """Rounded so that nothing is promised that is not there."""
        for ppm in (0, 1, 50_000, 599_999, 900_000, 1_000_000):
            self.assertEqual(ppm, interfaces.to_ppm(
                interfaces.to_kernel_bw(ppm)))  # fmt: skip
        self.assertEqual(599_999, interfaces.to_ppm(Share(3, 5).kernel_bw))
        self.assertEqual(0, Share(None, 5).kernel_bw)
