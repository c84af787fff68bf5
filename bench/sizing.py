# SPDX-License-Identifier: Apache-2.0
"""Hold nova-rt-model against long simulations.

    python -m bench.sizing table
    python -m bench.sizing cases [--count N] [--seed N]

``table`` simulates six samples of CPU times on a whole CPU, at two loads, and
writes the manual's table of bounds; then it sizes eight services whose
deadline is a little above the simulated percentile. ``cases`` sizes random
services of all kinds of arrivals, and simulates each with fresh random
numbers, on a server that has each budget as late as possible. It looks for the
smallest runtime that would do as well.
"""

import argparse
import collections
import dataclasses
import math
import pathlib
import platform
from typing import Any

import numpy
import numpy.typing

from nova_rt import exception
from nova_rt.model import cbs, general, services, simulation, sizing, trace
from nova_rt.model.limits import Limits
from nova_rt.model.schedule import Position
from nova_rt.model.services import Service
from nova_rt.reservation.reservation import Reservation

Array = numpy.typing.NDArray[Any]

TABLE = (
    pathlib.Path(__file__).resolve().parents[1]
    / 'doc/source/contributor/general-table.inc'
)
FRACTIONS = (0.5, 0.9, 0.99, 0.999)
_REQUESTS = 4_000_000
# Runs of each sample; the last one has times of 700 means.
_RUNS = collections.defaultdict(lambda: 12, {'Pareto 1.5': 60})
# Of the logarithm of a response time.
_CELL = 5e-5
# A sample, its load on a whole CPU, a fraction, and the deadline over the
# simulated percentile: all of these were refused once.
_EIGHT = (
    ('Pareto 1.5', 0.8, 0.99, 1.23),
    ('lognormal 1', 0.3, 0.99, 1.205),
    ('lognormal 1', 0.5, 0.999, 1.05),
    ('Pareto 2.5', 0.3, 0.99, 1.85),
    ('Pareto 2.5', 0.5, 0.999, 1.15),
    ('lognormal 1.8', 0.3, 0.99, 1.22),
    ('bimodal', 0.4, 0.99, 1.09),
    ('lognormal 1.8', 0.5, 0.9, 1.3),
)
_KINDS = (
    'Poisson', 'batches', 'periodic', 'jitter', 'recorded', 'instants',
    'split', 'polling', 'link',
)  # fmt: skip


def samples() -> dict[str, Array]:
    """20,000 CPU times of each kind, in seconds."""
    rng = numpy.random.default_rng(20)
    count = 20_000
    long = rng.random(count) < 0.05
    return {
        'exponential': 1e-3 * rng.exponential(1, count),
        'lognormal 1': 5e-4 * rng.lognormal(0, 1, count),
        'lognormal 1.8': 3e-4 * rng.lognormal(0, 1.8, count),
        'bimodal': numpy.where(long, 5e-3, 3e-4),
        'Pareto 2.5': 3e-4 * (1 + rng.pareto(2.5, count)),
        'Pareto 1.5': 3e-4 * (1 + rng.pareto(1.5, count)),
    }


def simulated_s(times_s: Array, load: float, runs: int) -> Array:
    """Percentiles of Poisson requests on a whole CPU, of all runs together."""
    rate = load / float(times_s.mean())
    counts = numpy.zeros(1 << 20, dtype=numpy.int64)
    for seed in range(runs):
        drawn = trace.draw(
            Service(samples_s=tuple(times_s)), _REQUESTS, 1000 + seed
        )
        # The queue was empty at first.
        responses_s = drawn.responses_s(rate, 1.0)[_REQUESTS // 20 :]
        cells = (numpy.log(responses_s / times_s.min()) / _CELL).astype(int)
        counts += numpy.bincount(
            cells.clip(0, counts.size - 1), minlength=counts.size
        )
    shares = numpy.cumsum(counts) / counts.sum()
    ends = (numpy.searchsorted(shares, FRACTIONS) + 0.5) * _CELL
    found: Array = times_s.min() * numpy.exp(ends)
    return found


def table() -> None:
    """Write the table, and size the eight services."""
    head = ('Sample', 'Load', 'p50', 'p90', 'p99', 'p99.9')
    rows: list[tuple[str, ...]] = [head]
    truth = {}
    for name, times_s in samples().items():
        queue = general.GeneralQueue(times_s)
        for load in (0.3, 0.8):
            rate = load / queue.mean_service_s
            seen = simulated_s(times_s, load, _RUNS[name])
            truth[name, load] = seen
            row = [name, f'{load:g}']
            for fraction, one_s in zip(FRACTIONS, seen, strict=True):
                low_s, high_s = queue.bounds_s(rate, 1.0, fraction)
                row.append(
                    f'{100 * (low_s / one_s - 1):+.2f}, '
                    f'{100 * (high_s / one_s - 1):+.2f} %'
                )
            rows.append(tuple(row))
            print(*row, sep=' | ', flush=True)
    text = (
        '.. Written by python -m bench.sizing table.\n\n'
        f'Lower and upper bound against 12 runs of {_REQUESTS:,} requests on '
        'a whole CPU (60\nof the last sample), six samples of 20,000 times, '
        'written by ``python -m bench.sizing\ntable`` on an x86-64 virtual '
        f'machine with Python {platform.python_version()} and numpy '
        f'{numpy.__version__}:\n\n'
        '.. list-table::\n   :header-rows: 1\n\n'
    )
    for cells in rows:
        text += f'   * - {cells[0]}\n'
        text += ''.join(f'     - {cell}\n' for cell in cells[1:])
    TABLE.write_text(text)
    for name, load, fraction, over in _EIGHT:
        times_s = samples()[name]
        if (name, load) not in truth:
            truth[name, load] = simulated_s(times_s, load, 6)
        one_s = truth[name, load][FRACTIONS.index(fraction)]
        rate = load / float(times_s.mean())
        found = sizing.size(
            general.GeneralQueue(times_s), rate, over * one_s, fraction
        )
        print(
            f'{name}, {rate:.0f}/s, {1e3 * over * one_s:.4g} ms, '
            f'{100 * fraction:g} %: {found.reservation}', flush=True,
        )  # fmt: skip


def service_of(  # noqa: C901 - one after the other
    kind: str, rng: numpy.random.Generator
) -> tuple[Service, float]:
    """A random service of a kind, and the mean of its CPU times."""
    mean_s = 10 ** rng.uniform(-4.3, -2.5)
    words: dict[str, Any] = {'service_s': mean_s}
    choice = rng.integers(3)
    shape = 0.5 if rng.random() < 0.5 else 3.0
    times = mean_s * (rng.gamma(shape, 1 / shape, 2000) + 0.02)
    if kind in {'recorded', 'instants'}:
        phases = trace.swinging(
            Service(mean_s), 1 / mean_s, rng.uniform(0, 0.6), 20 * mean_s
        )
        words['instants_s'] = tuple(
            phases.instants_s(0.3 / mean_s)[:30_000].tolist()
        )
        if kind == 'recorded':
            works = rng.exponential(mean_s, 30_000)
            works = 0.5 * works + 0.5 * numpy.roll(works, 1)
            words['samples_s'] = tuple(works.tolist())
    elif choice == 0:
        words['constant'] = True
    elif choice == 1:
        words['samples_s'] = tuple(times.tolist())
        mean_s = float(times.mean())
    if kind == 'batches' or (kind == 'jitter' and rng.random() < 0.5):
        words['batch'] = int(rng.integers(2, 9))
    if kind in {'periodic', 'jitter'}:
        words['periodic'] = True
    if kind == 'jitter':
        words['jitter_s'] = mean_s * rng.uniform(0.5, 20)
    if kind == 'split':
        words |= {'split': True, 'cpus': int(rng.integers(2, 5))}
        words['periodic'] = bool(rng.random() < 0.3)
    if kind == 'polling':
        words['polling'] = True
    if kind == 'link':
        words['link'] = services.Link(1e6, 1e6 * mean_s * rng.uniform(0.2, 1))
    return Service(**words), mean_s


def alternating_ns(come: Array, works: Array, net: Reservation) -> Array:
    """Completion times where budgets come early, then late, whether used."""
    runtime, period = 1000 * net.runtime_us, 1000 * net.period_us

    def offset(number: Array) -> Array:
        return number % 2 * (period - runtime)

    number, into = numpy.divmod(come, period)
    ready = number * runtime
    ready += numpy.clip(into - offset(number), 0, runtime)
    done = simulation.fifo_ns(ready, works)
    number = (done - 1) // runtime
    end: Array = number * period + offset(number) + done - number * runtime
    return end


def responses_s(
    service: Service, rate: float, net: Reservation, count: int, seed: int
) -> Array:
    """Response times of fresh requests on the latest server."""
    one = service
    if service.split:
        # Of one CPU, in the order in which they come.
        drawn = trace.draw(service, count, seed, one_queue=True)
    else:
        drawn = trace.draw(one, count, seed)
    sent = simulation.whole_ns(drawn.instants_s(rate))
    works = numpy.maximum(simulation.whole_ns(drawn.works_s), 1)
    come = sent
    if service.link:
        link_s = service.link.size_bit / service.link.bit_per_s
        rng = numpy.random.default_rng(seed + 7)
        come = simulation.fifo_ns(
            sent, simulation.exponential_ns(link_s, len(sent), rng)
        )
    if service.polling:
        done = alternating_ns(come, works, net)
    else:
        done = cbs.DeadlineServer(net, Position.LAST).fifo_ns(come, works)
    times_s: Array = (done - sent) / 1e9
    return times_s


def share_late(times_s: Array, deadline_s: float) -> tuple[float, float]:
    """The share of late requests, and its standard error by batches."""
    late = (times_s > deadline_s * (1 + 1e-9)).astype(float)
    parts = [part.mean() for part in numpy.array_split(late, 30)]
    return float(late.mean()), float(numpy.std(parts)) / math.sqrt(29)


@dataclasses.dataclass
class Case:
    """A random service with its answer, judged."""

    kind: str
    text: str
    beyond: bool
    waste: float


def judge(number: int, seed: int) -> Case | None:
    """Size a random service and simulate it."""
    rng = numpy.random.default_rng([seed, number])
    kind = _KINDS[number % len(_KINDS)]
    service, mean_s = service_of(kind, rng)
    fraction = float(rng.choice([0.9, 0.99, 0.995]))
    cpus = service.cpus if service.split else 1
    rate = cpus * rng.uniform(0.2, 0.7) / mean_s
    model = services.choose(service).model
    # A little or much above what a whole CPU can do.
    least_s = model.percentile_s(rate, 1.0, fraction)
    deadline_s = least_s * 10 ** rng.uniform(0.1, 1.0)
    limits = Limits(min_period_us=100)
    try:
        found = sizing.size(model, rate, deadline_s, fraction, limits)
    except exception.Unreachable:
        return None
    pair = found.reservation

    def late(runtime_us: int, count: int, fresh: int) -> tuple[float, float]:
        net = Reservation(runtime_us - 5, pair.period_us)
        return share_late(
            responses_s(service, rate, net, count, fresh), deadline_s
        )

    share, error = late(pair.runtime_us, 300_000, 10**6 + number)
    allowed = 1 - fraction
    beyond = share - 3 * error > allowed + 1e-12
    # The smallest runtime that would have done, by the same requests.
    low = max(7, math.ceil(rate / cpus * mean_s * pair.period_us) + 5)
    high = pair.runtime_us
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        if late(middle, 60_000, 2 * 10**6 + number)[0] <= allowed:
            high = middle
        else:
            low = middle
    waste = pair.runtime_us / high - 1
    text = (
        f'{number} {kind}: {rate:.5g}/s of {1e6 * mean_s:.4g} us, '
        f'{1e3 * deadline_s:.4g} ms, {100 * fraction:g} %: {pair}, late '
        f'{100 * share:.3f} % +- {300 * error:.3f}; {high} would do '
        f'({100 * waste:+.1f} %)'
    )
    return Case(kind, text, beyond, waste)


def cases(count: int, seed: int) -> int:
    """Judge random services; 1 if an answer was below the truth."""
    judged = []
    for number in range(count):
        case = judge(number, seed)
        if case is not None:
            judged.append(case)
            mark = ' BEYOND' if case.beyond else ''
            print(case.text + mark, flush=True)
    beyond = [case for case in judged if case.beyond]
    much = [case for case in judged if case.waste > 0.1]
    print(
        f'{len(judged)} of {count} sized, {len(beyond)} below the truth, '
        f'{len(much)} more than 10 % above the smallest:',
        dict(collections.Counter(case.kind for case in much)),
    )
    return int(bool(beyond))


def main() -> int:
    """Run one of both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument('what', choices=('table', 'cases'))
    parser.add_argument('--count', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    if options.what == 'table':
        table()
        return 0
    return cases(options.count, options.seed)


if __name__ == '__main__':
    raise SystemExit(main())
