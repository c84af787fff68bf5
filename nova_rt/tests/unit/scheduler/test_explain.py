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

    def test_refused(self):
        empty = {0: 950_000, 1: 950_000}
        many = Capacity(dict.fromkeys(range(64), 950_000))
        for vcpus, count, hosts, *texts in (
            (
                1, 1,
                [
                    Capacity({0: 100_000, 1: 0}),
                    Capacity({0: 350_000, 1: 200_000}),
                    Capacity({}),
                ],
                'asked 600000', 'free 350000 ppm', 'best of 3',
            ),
            (
                1, 1, [Capacity(empty, 350_000)],
                'free 350000 ppm', 'whole host',
            ),
            (
                100, 1, [many] * 1000,
                'each of 100 CPU(s)', '64 offered', 'best of 1000',
            ),
            # Enough CPUs are nearer than few empty ones.
            (
                2, 1, [Capacity({0: 950_000}),
                       Capacity({0: 500_000, 1: 400_000})],
                'free 500000, 400000 ppm',
            ),
            (
                1, 4, [Capacity(empty), Capacity({0: 950_000})],
                'asked 4 servers with 600000', 'room for 3 on 2',
            ),
        ):  # fmt: skip
            found = self._explain(asked(vcpus), count, hosts)
            for text in texts:
                self.assertIn(text, found)
        fitting = [Capacity(empty), Capacity({0: 950_000})]
        self.assertIsNone(explain.explain(asked(), 3, fitting))

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
        limits = {Enforcement.LIMIT: 12}
        soft = {Enforcement.SOFT: 2, Enforcement.LIMIT: 0}
        for wish, weaker, texts, others in (
            (Enforcement.GUARANTEE, None, ('free none', 'guarantees'),
             'limit'),
            (Enforcement.GUARANTEE, limits,
             ('12 only limit', 'rt:enforcement=limit'), 'soft'),
            (Enforcement.GUARANTEE, soft,
             ('2 only soft', 'rt:enforcement=soft accepts'), 'limit'),
            (Enforcement.SOFT, limits,
             ('no host with a scheduler that keeps it', '12 only limit'),
             'guarantee'),
            (Enforcement.LIMIT, None, ('asked 600000', 'free none'),
             'guarantee'),
        ):  # fmt: skip
            found = self._explain(asked(enforcement=wish), 1, [], weaker)
            for text in texts:
                self.assertIn(text, found)
            self.assertNotIn(others, found)
