# SPDX-License-Identifier: Apache-2.0
"""The most that any plan can reserve, by an integer program.

Needs highspy, the Python interface of HiGHS.
"""

import collections
from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import importlib
import math
import operator
import os
from typing import Any

from nova_rt import exception
from nova_rt.model.planner import (
    CandidateHost,
    Placed,
    PlannedServer,
    bound_ppm,
)
from nova_rt.reservation.admission import Capacity, Claim

# Beyond this, an answer within a minute is out of reach.
_MOST_NUMBERS = 50_000
# Largest distance of the solver's numbers from whole ones. A CPU's sum has
# coefficients below 2e6, so that this is much less than 1 ppm of it.
_WHOLE = 1e-9
# Error that a bound, which is a whole number, can have.
_SLACK = 0.01


@dataclasses.dataclass(frozen=True)
class Optimum:
    """Result of the solver.

    :ivar placed: its plan, checked in integers; perhaps no heuristic finds it
    :ivar bound_ppm: bandwidth that no plan exceeds, by the solver
    """

    placed: tuple[Placed, ...]
    bound_ppm: int

    @property
    def admitted_ppm(self) -> int:
        """Bandwidth of the servers that have a place."""
        return sum(each.server.total_ppm for each in self.placed)


@dataclasses.dataclass
class _Program:
    """An integer program, row by row.

    :ivar most: upper bounds of the numbers
    :ivar gains: coefficient of each in the sum that is maximized
    :ivar rows: rows of pairs of a number and its coefficient
    :ivar lower: lower bound of each row
    :ivar upper: upper bound of each row
    """

    most: list[int] = dataclasses.field(default_factory=list)
    gains: list[int] = dataclasses.field(default_factory=list)
    rows: list[list[tuple[int, int]]] = dataclasses.field(default_factory=list)
    lower: list[float] = dataclasses.field(default_factory=list)
    upper: list[float] = dataclasses.field(default_factory=list)

    def number(self, most: int, gain: int = 0) -> int:
        """Add a whole number of at least 0; return its index."""
        self.most.append(most)
        self.gains.append(gain)
        return len(self.most) - 1

    def row(
        self,
        terms: Sequence[tuple[int, int]],
        upper: float,
        lower: float = -math.inf,
    ) -> None:
        """Add bounds of a sum."""
        self.rows.append(list(terms))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Servers of the same size on one host.

    :ivar servers: all of that size
    :ivar count: index of the number of servers on the host
    :ivar on: CPU -> index of the number of servers that have it
    """

    servers: list[PlannedServer]
    host: int
    count: int
    on: dict[int, int]


def load() -> Any:
    """Load the solver.

    :returns: its module
    :raises Unanswerable: if it is not installed
    """
    try:
        return importlib.import_module('highspy')
    except ImportError as err:
        raise exception.Unanswerable(
            'the exact optimum needs highspy: install nova_rt[exact]'
        ) from err


def solve(
    servers: Sequence[PlannedServer],
    hosts: Sequence[CandidateHost],
    limit_s: float,
) -> Optimum:
    """Look for the plan with the most bandwidth, whatever the heuristic.

    :param limit_s: time after which the solver gives up
    :returns: the best plan that it found, and a bound
    :raises InvalidQuantity: if the plan is too large
    :raises Unanswerable: without the solver
    """
    highspy = load()
    # Smaller numbers, and all of them whole.
    unit = math.gcd(*(server.reservation.ppm for server in servers)) or 1
    program, groups = _write(servers, hosts, unit)
    if not program.most:
        return Optimum((), 0)
    found, bound = _run(highspy, program, limit_s)
    return Optimum(
        _check(_read(groups, found), hosts),
        min(bound_ppm(servers, hosts), bound * unit),
    )


def _write(
    servers: Sequence[PlannedServer], hosts: Sequence[CandidateHost], unit: int
) -> tuple[_Program, list[_Group]]:
    """Write the program, with one number for all servers of a size.

    Servers of a size cannot swap then. With x of them on a host, each on v
    CPUs, and y_c of them on CPU c::

        sum of y_c = v x,  y_c <= x

    is enough for each to have v distinct CPUs, see :func:`_deal`.
    """
    sizes: dict[tuple[int, int], list[PlannedServer]] = (
        collections.defaultdict(list)
    )
    for server in servers:
        sizes[server.reservation.ppm, server.vcpus].append(server)
    total = sum(len(host.capacity.cpus) for host in hosts)
    if len(sizes) * total > _MOST_NUMBERS:
        raise exception.InvalidQuantity(
            'the exact optimum is for small plans: this one has '
            f'{len(sizes)} sizes of servers and {total} CPUs, whose product '
            f'is above {_MOST_NUMBERS}'
        )
    program = _Program()
    groups: list[_Group] = []
    for (ppm, vcpus), same in sizes.items():
        counts = []
        for index, host in enumerate(hosts):
            cpus = [cpu for cpu, free in host.capacity.cpus.items()
                    if free >= ppm]  # fmt: skip
            if len(cpus) < vcpus:
                continue
            count = program.number(len(same), vcpus * ppm // unit)
            on = {cpu: program.number(len(same)) for cpu in cpus}
            program.row(
                [(count, -vcpus), *((number, 1) for number in on.values())],
                0, 0,
            )  # fmt: skip
            for number in on.values():
                program.row([(number, 1), (count, -1)], 0)
            counts.append((count, 1))
            groups.append(_Group(same, index, count, on))
        program.row(counts, len(same))
    terms = collections.defaultdict(list)
    for group in groups:
        ppm = group.servers[0].reservation.ppm
        for cpu, number in group.on.items():
            terms[group.host, cpu].append((number, ppm // unit))
    for (index, cpu), some in terms.items():
        program.row(some, hosts[index].capacity.cpus[cpu] // unit)
    return program, groups


def _run(
    highspy: Any, program: _Program, limit_s: float
) -> tuple[list[int], int]:
    """Solve it.

    :returns: the numbers, all 0 if none were found, and a bound on the sum
    """
    import numpy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.most), len(program.rows)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = numpy.array(program.gains, dtype=float)
    lp.col_lower_ = numpy.zeros(lp.num_col_)
    lp.col_upper_ = numpy.array(program.most, dtype=float)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
    lp.row_lower_ = numpy.array(program.lower)
    lp.row_upper_ = numpy.array(program.upper, dtype=float)
    matrix = lp.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = numpy.cumsum([0, *map(len, program.rows)])
    terms = [term for row in program.rows for term in row]
    matrix.index_ = numpy.array([number for number, _ in terms])
    matrix.value_ = numpy.array([factor for _, factor in terms], dtype=float)
    with _quiet():
        solver = highspy.Highs()
        for option, value in {
            'output_flag': False,
            'threads': 1,
            'time_limit': float(limit_s),
            'mip_rel_gap': 0.0,
            # The sum is a whole number.
            'mip_abs_gap': 0.5,
            'mip_feasibility_tolerance': _WHOLE,
            'primal_feasibility_tolerance': _WHOLE,
        }.items():
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        solver.run()
    information = solver.getInfo()
    bound = information.mip_dual_bound
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        # The dual bound may be above it, by less than 1.
        bound = information.objective_function_value
    # The bound is infinite if time was up before there was one.
    most = sum(map(operator.mul, program.gains, program.most))
    numbers = [round(value) for value in solver.getSolution().col_value]
    if len(numbers) != lp.num_col_:
        numbers = [0] * lp.num_col_
    return numbers, math.floor(min(bound + _SLACK, most))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep output of C code, such as a banner, out of the answer."""
    kept = os.dup(1)
    try:
        with open(os.devnull, 'wb') as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _read(groups: list[_Group], numbers: list[int]) -> list[Placed]:
    """Places of servers, from the number of each size on each CPU."""
    left = {id(group.servers): list(group.servers) for group in groups}
    return [
        Placed(left[id(group.servers)].pop(), group.host, cpus)
        for group in groups
        for cpus in _deal(
            numbers[group.count],
            {cpu: numbers[number] for cpu, number in group.on.items()},
        )
    ]


def _deal(count: int, on: dict[int, int]) -> list[tuple[int, ...]]:
    """Deal CPUs to servers like cards, each CPU as often as its number.

    No server gets one twice, since no number exceeds that of the servers.

    :returns: the CPUs of each server
    """
    cards = [cpu for cpu, number in on.items() for _ in range(number)]
    return [tuple(sorted(cards[first::count])) for first in range(count)]


def _check(
    placed: list[Placed], hosts: Sequence[CandidateHost]
) -> tuple[Placed, ...]:
    """Check a plan of the solver, which counts in floats, by admission.

    :returns: the servers that are admitted where they are
    """
    free: list[Capacity] = [host.capacity for host in hosts]
    admitted = []
    for each in placed:
        ppm, cpus = each.server.reservation.ppm, set(each.cpus)
        there = free[each.host]
        if (
            len(cpus) == len(each.cpus) == each.server.vcpus
            and min(there.cpus.get(cpu, 0) for cpu in cpus) >= ppm
        ):
            free[each.host] = there.free([Claim(each.cpus, ppm)])
            admitted.append(each)
    return tuple(admitted)
