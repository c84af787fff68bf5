# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.scheduler.explain."""

from oslotest import base

from nova_rt.reservation.admission import Capacity
from nova_rt.reservation.extra_specs import Enforcement, Numa
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.scheduler import explain

# NoValidHost says this in front, and a fault holds 255 characters.
ROOM = 255 - len('No valid host was found. ')


def asked(vcpus=1, enforcement=Enforcement.GUARANTEE, numa=Numa.PREFER):
    return Request(
        Reservation(600, 1000), vcpus, enforcement=enforcement, numa=numa
    )


class ExplainTest(base.BaseTestCase):
    def _explain(self, *args):
        reason = explain.explain(*args)
        self.assertIsNotNone(reason)
        self.assertLessEqual(len(str(reason)), ROOM)
        # What was asked for, no number of a host.
        self.assertTrue(
            reason.user_message.endswith(' CPU(s), which is not free')
        )
        self.assertNotRegex(reason.user_message, 'host|limit|guarantee')
        return str(reason)

    def test_fits(self):
        hosts = [Capacity({0: 0}), Capacity({0: 600_000})]
        self.assertIsNone(explain.explain(asked(), 1, hosts))

    def test_full(self):
        hosts = [
            Capacity({0: 100_000, 1: 0}),
            Capacity({0: 350_000, 1: 200_000}),
            Capacity({}),
        ]
        text = self._explain(asked(), 1, hosts)
        self.assertIn('asked 600000', text)
        self.assertIn('free 350000 ppm', text)
        self.assertIn('best of 3', text)

    def test_full_host_sum(self):
        hosts = [Capacity({0: 950_000, 1: 950_000}, 350_000)]
        text = self._explain(asked(), 1, hosts)
        self.assertIn('free 350000 ppm', text)
        self.assertIn('whole host', text)

    def test_too_many_vcpus(self):
        hosts = [Capacity(dict.fromkeys(range(64), 950_000))] * 1000
        text = self._explain(asked(vcpus=100), 1, hosts)
        self.assertIn('each of 100 CPU(s)', text)
        self.assertIn('64 offered', text)
        self.assertIn('best of 1000', text)

    def test_enough_cpus_is_nearer_than_few_empty_ones(self):
        hosts = [Capacity({0: 950_000}), Capacity({0: 500_000, 1: 400_000})]
        text = self._explain(asked(vcpus=2), 1, hosts)
        self.assertIn('free 500000, 400000 ppm', text)

    def test_no_node(self):
        nodes = {
            node: tuple(range(32 * node, 32 * node + 32)) for node in range(16)
        }
        free = Capacity(
            {cpu: 500_000 + cpu for cpu in range(512)}, nodes=nodes
        )
        text = self._explain(asked(32, numa=Numa.SAME), 1, [free] * 50)
        self.assertIn('node 15 500480, node 14 500448,', text)
        both = Capacity(dict.fromkeys(range(4), 600_000), nodes={
            0: (0, 1), 1: (2, 3)})  # fmt: skip
        self.assertIsNone(explain.explain(asked(4), 1, [both]))
        self.assertIsNone(explain.explain(asked(2, numa=Numa.SAME), 2, [both]))
        text = self._explain(asked(3, numa=Numa.SAME), 1, [both])
        self.assertIn('node 0 0, node 1 0', text)

    def test_several_servers(self):
        hosts = [Capacity({0: 950_000, 1: 950_000}), Capacity({0: 950_000})]
        self.assertIsNone(explain.explain(asked(), 3, hosts))
        text = self._explain(asked(), 4, hosts)
        self.assertIn('asked 4 servers', text)
        self.assertIn('600000', text)
        self.assertIn('room for 3 on 2', text)

    def test_given_away(self):
        """Placement counts servers that the hosts do not know yet."""
        hosts = [Capacity({0: 600_000})] * 1000
        reason = explain.explain(asked(vcpus=1), 1, hosts, given_away=True)
        self.assertIn('asked 600000', str(reason))
        self.assertIn('room on', str(reason))
        self.assertIn('given it away', str(reason))
        self.assertLessEqual(len(str(reason)), ROOM)
        self.assertTrue(
            reason.user_message.endswith(' CPU(s), which is not free')
        )
        full = [Capacity({0: 0})]
        self.assertIn(
            'free 0 ppm',
            str(explain.explain(asked(), 1, full, given_away=True)),
        )

    def test_no_host(self):
        text = self._explain(asked(), 1, [])
        self.assertIn('asked 600000', text)
        self.assertIn('free none', text)
        self.assertIn('guarantees', text)
        self.assertNotIn('limit', text)

    def test_no_host_but_some_that_limit(self):
        text = self._explain(asked(), 1, [], {Enforcement.LIMIT: 12})
        self.assertIn('12 only limit', text)
        self.assertIn('rt:enforcement=limit', text)

    def test_no_host_but_some_that_are_soft(self):
        weaker = {Enforcement.SOFT: 2, Enforcement.LIMIT: 0}
        text = self._explain(asked(), 1, [], weaker)
        self.assertIn('2 only soft', text)
        self.assertIn('rt:enforcement=soft accepts', text)
        self.assertNotIn('limit', text)

    def test_no_host_that_is_soft(self):
        wish = asked(enforcement=Enforcement.SOFT)
        text = self._explain(wish, 1, [], {Enforcement.LIMIT: 3})
        self.assertIn('no host with a scheduler that keeps it', text)
        self.assertIn('3 only limit', text)

    def test_no_host_even_to_limit(self):
        text = self._explain(asked(enforcement=Enforcement.LIMIT), 1, [])
        self.assertIn('free none', text)
        self.assertNotIn('guarantee', text)
