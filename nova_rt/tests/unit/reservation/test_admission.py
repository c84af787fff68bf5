# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.reservation.admission."""

import dataclasses
import itertools
import random

from oslotest import base

from nova_rt import exception
from nova_rt.reservation import admission
from nova_rt.reservation.admission import Capacity, Placement
from nova_rt.reservation.extra_specs import Numa
from nova_rt.tests.fixtures.requests import ask, claim


def equal_cpus(count, ppm=950_000, host=None):
    return Capacity(dict.fromkeys(range(count), ppm), host)


class CapacityTest(base.BaseTestCase):
    def test_total(self):
        self.assertEqual(3_800_000, equal_cpus(4).total_ppm)
        self.assertEqual(950_000, equal_cpus(4, host=950_000).total_ppm)
        self.assertEqual(950_000, equal_cpus(1, host=9_000_000).total_ppm)
        self.assertEqual(0, Capacity({}).total_ppm)

    def test_free(self):
        for capacity, claims, cpus, host in (
            (
                equal_cpus(3),
                [claim((0, 1), 300_000), claim((1,), 50_000)],
                {0: 650_000, 1: 600_000, 2: 950_000},
                None,
            ),
            (
                equal_cpus(2, host=950_000),
                [claim((0, 1), 300_000)],
                {0: 650_000, 1: 650_000},
                350_000,
            ),
            # The operator has taken capacity away under claims that exist.
            (
                equal_cpus(1, ppm=100_000, host=50_000),
                [claim((0,), 300_000)],
                {0: 0},
                0,
            ),
            # On a CPU that is gone.
            (
                equal_cpus(1, host=950_000),
                [claim((7,), 300_000)],
                {0: 950_000},
                650_000,
            ),
        ):
            before = dict(capacity.cpus)
            free = capacity.free(claims)
            self.assertEqual((cpus, host), (free.cpus, free.host_ppm))
            self.assertEqual(before, capacity.cpus)

    def test_without(self):
        held = claim((0, 7), 300_000)
        free = equal_cpus(2, 100_000, host=200_000).without(held)
        self.assertEqual({0: 400_000, 1: 100_000}, free.cpus)
        self.assertEqual(800_000, free.host_ppm)

    def test_place_again(self):
        """A claim that grows keeps its CPUs while they have room."""
        held = claim((1, 2), 300_000)
        free = Capacity({0: 900_000, 1: 100_000, 2: 200_000, 3: 900_000})
        for ppm, cpus in (400_000, (1, 2)), (500_000, (0, 3)):
            self.assertEqual(cpus, admission.place(free, ask(2, ppm), held))
        err = self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place, free, ask(2, 950_000), held,
        )  # fmt: skip
        self.assertEqual((900_000, 900_000), err.free_ppm)
        # One of them is shared with what it has.
        free = Capacity({0: 900_000, 1: 100_000, 2: 200_000})
        self.assertEqual((0, 2), admission.place(free, ask(2, 500_000), held))
        whole = Capacity({0: 900_000, 1: 900_000}, 100_000)
        held = claim((0,), 300_000)
        self.assertEqual((0,), admission.place(whole, ask(1, 400_000), held))
        self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place, whole, ask(1, 400_001), held,
        )  # fmt: skip

    def test_sum_by_cpu(self):
        found = admission.sum_by_cpu([claim((1, 3), 400), claim((3,), 50)])
        self.assertEqual({1: 400, 3: 450}, found)
        self.assertEqual(0, found[2])


class PlaceTest(base.BaseTestCase):
    """Refusals; ExhaustiveTest has the choices."""

    def test_refused(self):
        for free, request, free_ppm, *texts in (
            # Each fits with 1 ppm less.
            (equal_cpus(1), ask(1, 950_001), (950_000,), '950001', '950000'),
            (
                equal_cpus(4, host=950_000),
                ask(2, 475_001),
                (950_000,),
                '950002',
            ),
            # The sum is enough, but no CPU is.
            (equal_cpus(4, ppm=500_000), ask(1, 600_000), (500_000,)),
            # vCPUs need distinct CPUs.
            (equal_cpus(2), ask(3, 10), (950_000, 950_000), '2 offered'),
            # The last vCPU decides.
            (Capacity({0: 900, 1: 900, 2: 100}), ask(3, 200), (900, 900, 100)),
            (Capacity({}), ask(1, 10), (), 'free none'),
        ):
            err = self.assertRaises(
                exception.InsufficientBandwidth, admission.place, free, request
            )
            self.assertEqual(request.reservation.ppm, err.asked_ppm)
            self.assertEqual(free_ppm, err.free_ppm)
            for text in texts:
                self.assertIn(text, str(err))
        self.assertEqual((0,), admission.place(equal_cpus(1), ask(1, 950_000)))
        both = admission.place(equal_cpus(4, host=950_000), ask(2, 475_000))
        self.assertEqual((0, 1), both)

    def test_many(self):
        left = admission.place_many(equal_cpus(2), ask(1, 400_000), 4)
        self.assertEqual({0: 150_000, 1: 150_000}, left.cpus)
        self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place_many,
            equal_cpus(2),
            ask(1, 400_000),
            5,
        )
        free = equal_cpus(2)
        self.assertEqual(free, admission.place_many(free, ask(1, 1), 0))

    def test_never_over_committed(self):
        rand = random.Random(1)
        for _ in range(200):
            host = rand.choice([None, rand.randrange(1, 4_000_000)])
            capacity = equal_cpus(rand.randrange(1, 6), host=host)
            claims = []
            for _ in range(30):
                vcpus = rand.randrange(1, 4)
                ppm = rand.randrange(1, 700_000)
                try:
                    cpus = admission.place(
                        capacity.free(claims), ask(vcpus, ppm)
                    )
                except exception.InsufficientBandwidth:
                    continue
                self.assertEqual(vcpus, len(set(cpus)))
                claims.append(claim(cpus, ppm))
            for cpu, ceiling in capacity.cpus.items():
                self.assertLessEqual(
                    sum(c.ppm for c in claims if cpu in c.cpus), ceiling
                )
            self.assertLessEqual(
                sum(c.total_ppm for c in claims), capacity.total_ppm
            )


# What place() promises, written down once more without its arithmetic: all
# choices are looked at.

#: Compares choices: less is better.
BETTER = {
    # The CPU with the least free has the most, then the next, ...
    Placement.WORST_FIT: lambda frees: [-ppm for ppm in sorted(frees)],
    Placement.FIRST_FIT: lambda frees: [],
    # The CPU with the most free has the least, then the next, ...
    Placement.BEST_FIT: lambda frees: sorted(frees, reverse=True),
}


def search(free, vcpus, ppm, numa):
    """The best of all choices; None if there is none."""
    if free.host_ppm is not None and vcpus * ppm > free.host_ppm:
        return None
    everywhere = [
        cpus
        for cpus in itertools.combinations(sorted(free.cpus), vcpus)
        if all(free.cpus[cpu] >= ppm for cpu in cpus)
    ]
    nodes = [set(cpus) for cpus in free.nodes.values()]
    on_a_node = [
        cpus
        for cpus in everywhere
        if not nodes or any(node.issuperset(cpus) for node in nodes)
    ]
    choices = {
        Numa.ANY: everywhere,
        Numa.SAME: on_a_node,
        Numa.PREFER: on_a_node or everywhere,
    }[numa]
    return min(
        choices,
        key=lambda cpus: (
            BETTER[free.placement](free.cpus[cpu] for cpu in cpus),
            cpus,
        ),
        default=None,
    )


def count_fitting(free, vcpus, ppm, numa):
    """Count the servers of one size that place() puts on a host."""
    for count in itertools.count():
        try:
            free = admission.place_many(free, ask(vcpus, ppm, numa), 1)
        except exception.InsufficientBandwidth:
            return count


def most_fitting(cpus, nodes, vcpus):
    """Count the servers that could be put there, whoever chooses.

    :param cpus: CPU -> how many servers it can take
    :param nodes: groups of CPUs; each server is to be in one of them
    """
    return max(
        (
            1 + most_fitting(
                {cpu: room - (cpu in chosen) for cpu, room in cpus.items()},
                nodes,
                vcpus,
            )
            for node in nodes
            for chosen in itertools.combinations(node, vcpus)
            if all(cpus[cpu] for cpu in chosen)
        ),
        default=0,
    )  # fmt: skip


def divisions(cpus):
    """All ways to divide CPUs among nodes."""
    if not cpus:
        yield []
        return
    first, *others = cpus
    for nodes in divisions(others):
        yield [[first], *nodes]
        for number, node in enumerate(nodes):
            yield [*nodes[:number], [first, *node], *nodes[number + 1 :]]


def hosts(cpus, most):
    """All hosts with these CPUs, of up to so many ppm."""
    for nodes in divisions(list(cpus)):
        # One node is no node: that is how a host says it.
        named = dict(enumerate(map(tuple, nodes))) if len(nodes) > 1 else {}
        for frees in itertools.product(range(most + 1), repeat=len(cpus)):
            yield Capacity(dict(zip(cpus, frees, strict=True)), nodes=named)


class ExhaustiveTest(base.BaseTestCase):
    """Small hosts and requests, all of them."""

    def _compare(self, free, vcpus, ppm, numa):
        expected = search(free, vcpus, ppm, numa)
        try:
            found = admission.place(free, ask(vcpus, ppm, numa))
        except exception.InsufficientBandwidth:
            found = None
        # Without assertEqual(), which would take most of the time.
        if found != expected:
            self.fail(
                f'{free}: {vcpus} CPUs of {ppm} ppm, {numa}: '
                f'chosen {found}, best {expected}'
            )

    def test_best_choice_or_none(self):
        tried = 0
        for free in hosts((0, 1, 2, 3), most=2):
            for placement, numa in itertools.product(Placement, Numa):
                here = dataclasses.replace(free, placement=placement)
                for vcpus, ppm in itertools.product(range(1, 6), (1, 2)):
                    self._compare(here, vcpus, ppm, numa)
                    tried += 1
        self.assertEqual(15 * 3**4 * 9 * 10, tried)

    def test_sum_over_the_host(self):
        for free in hosts((0, 1, 2), most=2):
            for placement, numa in itertools.product(Placement, Numa):
                for host in range(5):
                    here = dataclasses.replace(
                        free, placement=placement, host_ppm=host
                    )
                    for vcpus in (1, 2, 3):
                        self._compare(here, vcpus, 1, numa)

    def test_larger_hosts(self):
        """Not all of them; CPUs that are numbered across nodes."""
        rand = random.Random(1)
        for _ in range(1500):
            count = rand.randrange(5, 9)
            cpus = rand.sample(range(20), count)
            nodes = {}
            for cpu in sorted(cpus):
                nodes.setdefault(rand.randrange(3), []).append(cpu)
            free = Capacity(
                {cpu: rand.randrange(6) for cpu in cpus},
                nodes={node: tuple(has) for node, has in nodes.items()}
                if len(nodes) > 1
                else {},
                placement=rand.choice(list(Placement)),
            )
            self._compare(
                free,
                rand.randrange(1, 5),
                rand.randrange(1, 5),
                rand.choice(list(Numa)),
            )

    def test_fits_whatever_the_heuristic(self):
        """The scheduler need not know it for one server."""
        for free in hosts((0, 1, 2, 3), most=1):
            for vcpus, numa in itertools.product(range(1, 5), Numa):
                fits = {
                    search(
                        dataclasses.replace(free, placement=placement),
                        vcpus, 1, numa,
                    ) is not None
                    for placement in Placement
                }  # fmt: skip
                self.assertEqual(1, len(fits))

    def test_worst_fit_leaves_room_for_the_most_servers(self):
        """Of one size, and unless single nodes are only preferred."""
        for free in hosts((0, 1, 2, 3), most=2):
            nodes = list(free.nodes.values()) or [tuple(free.cpus)]
            for vcpus in (1, 2, 3):
                for numa, groups in (
                    (Numa.ANY, [tuple(free.cpus)]), (Numa.SAME, nodes)
                ):  # fmt: skip
                    self.assertEqual(
                        most_fitting(free.cpus, groups, vcpus),
                        count_fitting(free, vcpus, 1, numa),
                    )


class HeuristicTest(base.BaseTestCase):
    def test_several_servers_depend_on_it(self):
        """The scheduler has to know it for several servers at once."""
        free = Capacity({0: 2, 1: 1, 2: 1})
        counts = [
            count_fitting(
                dataclasses.replace(free, placement=placement), 2, 1, Numa.ANY
            )
            for placement in (Placement.WORST_FIT, Placement.BEST_FIT)
        ]
        self.assertEqual([2, 1], counts)

    def test_it_stays_with_what_is_left(self):
        nodes = {0: (0,), 1: (1,)}
        free = Capacity({0: 500, 1: 900}, None, nodes, Placement.BEST_FIT)
        left = free.free([claim((0,), 100)])
        self.assertEqual(
            (nodes, Placement.BEST_FIT), (left.nodes, left.placement)
        )


class NodesTest(base.BaseTestCase):
    """Two nodes, of which the first has the emptiest CPU."""

    FREE = Capacity(
        {0: 900, 1: 100, 2: 700, 3: 600, 4: 650},
        nodes={0: (0, 1), 3: (2, 3, 4)},
    )

    def _refuse(self, free, vcpus, ppm):
        return self.assertRaises(
            exception.InsufficientBandwidth,
            admission.place, free, ask(vcpus, ppm, Numa.SAME))  # fmt: skip

    def test_the_default_prefers_one(self):
        for vcpus, ppm, cpus in (
            (2, 200, (2, 4)),
            # As a fallback, several.
            (4, 200, (0, 2, 3, 4)),
            (2, 660, (0, 2)),
        ):
            self.assertEqual(cpus, admission.place(self.FREE, ask(vcpus, ppm)))

    def test_refused_with_what_each_node_has(self):
        err = self._refuse(self.FREE, 2, 660)
        self.assertEqual((700, 650), err.free_ppm)
        self.assertEqual(
            'RT bandwidth: asked 660 ppm on each of 2 CPU(s), free 700, 650 '
            'ppm; rt:numa=same; free on as many of one node: node 3 650, '
            'node 0 100',
            str(err),
        )

    def test_nodes_with_too_few_cpus_have_nothing(self):
        for vcpus, ppm, text in (3, 650, 'node 3 600, node 0 0'), (4, 10, ''):
            err = self._refuse(self.FREE, vcpus, ppm)
            self.assertEqual((700, 650, 600), err.free_ppm)
            self.assertIn(text or 'node 0 0', str(err))
        # Nodes do not matter to one vCPU.
        err = self._refuse(self.FREE, 1, 901)
        self.assertIn('(5 offered)', str(err))

    def test_many_nodes(self):
        """A refusal fits into a fault."""
        cpus = {cpu: 950_000 - cpu for cpu in range(512)}
        nodes = {
            node: tuple(range(node * 32, node * 32 + 32)) for node in range(16)
        }
        text = str(self._refuse(Capacity(cpus, nodes=nodes), 32, 950_000))
        self.assertIn(
            'node 0 949969, node 1 949937, node 2 949905, node 3 949873, ...',
            text,
        )
        # Behind 'No valid host was found. ', before ' (best of 50 host(s))'.
        self.assertLess(len(text), 255 - 25 - 21)

    def test_one_node_is_no_node(self):
        free = Capacity({0: 1, 1: 1})
        for numa in Numa:
            self.assertEqual((0, 1), admission.place(free, ask(2, 1, numa)))
        err = self._refuse(free, 3, 1)
        self.assertIn('2 offered', str(err))
