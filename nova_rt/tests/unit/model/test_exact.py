# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.model.exact."""

import math
import operator
import random
from unittest import mock

import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_rt.model import exact, planner
from nova_rt.reservation import admission
from nova_rt.tests.unit.model import test_planner
from nova_rt.tests.unit.model.test_planner import hosts, random_servers, server

# Each takes a second; nothing here is about how long.
PATIENCE_S = 3000


def unsolved(_, program, __):
    """A solver whose time was up at once."""
    return [0] * len(program.most), 10**12


class SolveTest(base.BaseTestCase):
    def solve(self, servers, where):
        found = exact.solve(servers, where, PATIENCE_S)
        names = [each.server.name for each in found.placed]
        self.assertEqual(len(set(names)), len(names))
        self.assertLessEqual(set(names), {each.name for each in servers})
        held = {}
        for each in found.placed:
            self.assertEqual(each.server.vcpus, len(set(each.cpus)))
            for cpu in each.cpus:
                key = each.host, cpu
                held[key] = held.get(key, 0) + each.server.reservation.ppm
        for (host, cpu), ppm in held.items():
            self.assertLessEqual(ppm, where[host].capacity.cpus[cpu])
        self.assertEqual(sum(held.values()), found.admitted_ppm)
        self.assertEqual(found.bound_ppm, found.admitted_ppm)
        return found.admitted_ppm

    def test_against_all_plans(self):
        """The solver has the optimum of the exhaustive search."""
        generator = random.Random(17)
        for number, cpus, many, most_vcpus in (
            *[(1, 1, 6, 1)] * 5,
            *[(2, 1, 6, 1)] * 5,
            *[(1, 3, 7, 2)] * 5,
            *[(2, 2, 7, 2)] * 5,
            *[(1, 4, 6, 4)] * 3,
        ):
            servers = random_servers(generator, many, most_vcpus)
            self.assertEqual(
                test_planner.optimum(servers, number, cpus),
                self.solve(servers, hosts(number, cpus)),
            )

    def test_planner(self):
        """In sum, 0.97 of the optimum, and in no case more than that."""
        generator = random.Random(18)
        planned, most, bounds = [], [], []
        for number, cpus, many, most_vcpus in (
            *[(1, 2, 8, 1)] * 6,
            *[(2, 2, 10, 2)] * 6,
            *[(1, 4, 9, 3)] * 6,
            *[(3, 2, 12, 2)] * 6,
            *[(2, 4, 15, 2)] * 4,
        ):
            servers = random_servers(generator, many, most_vcpus)
            where = hosts(number, cpus)
            planned.append(planner.plan(servers, where)[0].admitted_ppm)
            most.append(self.solve(servers, where))
            bounds.append(planner.bound_ppm(servers, where))
            self.assertLessEqual(planned[-1], most[-1])
        self.assertLessEqual(0.97 * sum(most), sum(planned))
        # The optimum is more to be held against than the bound is.
        self.assertLess(
            len(most) / 2,
            sum(map(operator.lt, most, bounds)),
        )

    def test_many_of_a_size(self):
        """One number for all of them, and each has CPUs of its own."""
        servers = [server(f's{each}', 300, 3) for each in range(9)]
        # Three fit on each CPU, so four on four CPUs.
        self.assertEqual(4 * 900_000, self.solve(servers, hosts(1, 4)))
        self.assertEqual(8 * 900_000, self.solve(servers, hosts(2, 4)))

    def test_single_ppm(self):
        """Servers that do not fit by one ppm."""
        servers = [server('a', 475), server('b', 475)]
        self.assertEqual(950_000, self.solve(servers, hosts(1, 1)))
        self.assertEqual(475_000, self.solve(servers, hosts(1, 1, 949_999)))

    def test_hosts_that_differ(self):
        few = admission.Capacity({3: 500_000, 8: 950_000})
        where = [planner.CandidateHost('few', few), *hosts(1, 3, 400_000)]
        servers = [server('a', 500, 2), server('b', 400, 3), server('c', 450)]
        self.assertEqual(2_650_000, self.solve(servers, where))

    def test_nothing(self):
        self.assertEqual(0, self.solve([], hosts(1, 1)))
        self.assertEqual(0, self.solve([server('a', 10, 3)], hosts(1, 2)))
        self.assertEqual(0, self.solve([server('a', 960)], hosts(2, 2)))

    def test_time_is_up(self):
        with mock.patch.object(exact, '_run', unsolved):
            found = exact.solve([server('a', 900)] * 2, hosts(1, 1), 1)
        self.assertEqual((), found.placed)
        self.assertEqual(950_000, found.bound_ppm)

    def test_bound(self):
        """That of a search that has ended is its result."""
        program = exact._Program()
        program.row([(program.number(10, 1), 1)], 8)
        highspy = mock.MagicMock()
        solver = highspy.Highs.return_value
        status = highspy.HighsModelStatus
        found = solver.getInfo.return_value
        for ended, least, most, numbers, wanted in (
            (status.kOptimal, 5.0, 5.99, [5.0], ([5], 5)),
            (status.kTimeLimit, 5.0, 7.9999999, [5.0000001], ([5], 8)),
            (status.kTimeLimit, 5.0, 7.9, [4.9999999], ([5], 7)),
            (status.kTimeLimit, 0.0, math.inf, [], ([0], 10)),
        ):
            solver.getModelStatus.return_value = ended
            solver.getSolution.return_value.col_value = numbers
            found.objective_function_value = least
            found.mip_dual_bound = most
            self.assertEqual(wanted, exact._run(highspy, program, 1))

    def test_what_is_not_admitted(self):
        """The solver counts in floats; what does not fit is not there."""
        placed = [
            planner.Placed(server('a', 600, 2), 0, (0, 1)),
            planner.Placed(server('b', 350), 0, (1,)),
            planner.Placed(server('too much', 351), 0, (0,)),
            planner.Placed(server('twice', 100, 2), 1, (0, 0)),
            planner.Placed(server('one', 100, 2), 1, (0,)),
            planner.Placed(server('nowhere', 100), 1, (2,)),
        ]
        checked = exact._check(placed, hosts(2, 2))
        self.assertEqual(['a', 'b'], [each.server.name for each in checked])

    @hypothesis.given(strategies.data())
    def test_deal(self, data):
        """Distinct CPUs, each as often as it is asked for."""
        count = data.draw(strategies.integers(1, 6))
        vcpus = data.draw(strategies.integers(1, 5))
        wanted = [
            data.draw(strategies.permutations(range(6)))[:vcpus]
            for _ in range(count)
        ]
        on = {cpu: sum(cpu in each for each in wanted) for cpu in range(6)}
        dealt = exact._deal(count, on)
        self.assertEqual([vcpus] * count, [len(set(each)) for each in dealt])
        for cpu, number in on.items():
            self.assertEqual(number, sum(cpu in each for each in dealt))
