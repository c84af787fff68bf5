# SPDX-License-Identifier: Apache-2.0
"""Measure figure 4 of RTLWS 2011: pings when a budget is used up.

    python -m experiments.spare [--pings N] [--output DIR]

A service of FIFO-50 and batch work of FIFO-1 share a reservation. It is pinged
whenever the budget is used up, with a pool of spare bandwidth and without, and
with a shorter period instead. The kernel is that of `make -C kernel build`, in
a QEMU guest under a virtual clock. The results are printed as a table, and
written as spare.csv, spare-pings.csv and spare.svg. The exit code is 1 if an
answer is later than the model allows, or the batch work suffers.
"""

import argparse
import collections
from collections.abc import Iterator, Sequence
import csv
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use('Agg')

from matplotlib import pyplot

from nova_rt.model import spare, supply
from nova_rt.reservation.reservation import Reservation

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'kernel' / 'scripts'
#: What an answer needs, as in kernel/tests/pings.c, and what it may take more
#: for switches and system calls.
WORK_NS = 100_000
MARGIN_NS = 100_000
#: Least batch work with a pool, against that without.
LEAST_WORK = 0.99


@dataclasses.dataclass(frozen=True)
class Case:
    """A reservation, with a pool or without."""

    own: Reservation
    pool: Reservation | None = None

    @property
    def name(self) -> str:
        """Milliseconds, as the paper writes it."""
        return _in_ms(self.own) + (
            f' + {_in_ms(self.pool)}' if self.pool else ''
        )

    def bound_ns(self) -> int:
        """The latest answer to a ping at the end of a budget.

        The service has the first work of the next budget; nothing else is
        reserved, and a pool was not used for a period.
        """
        own = supply.gap_us(self.own) * supply.NS_PER_US + WORK_NS
        if self.pool is None:
            return own
        return min(own, spare.answer_from_rest_ns(WORK_NS, self.pool))


_LONG = Reservation(40_000, 100_000)
CASES = (
    Case(_LONG),
    Case(_LONG, Reservation(4000, 10_000)),
    Case(_LONG, Reservation(1000, 10_000)),
    Case(Reservation(4000, 10_000)),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A measured case.

    :ivar units: loops of the batch work
    :ivar batch_ns: CPU time of the batch work
    :ivar length_ns: duration of the run
    """

    case: Case
    pings_ns: tuple[int, ...]
    units: int
    batch_ns: int
    length_ns: int

    @property
    def units_per_s(self) -> float:
        """Batch work for each second of the run."""
        return self.units * 1e9 / self.length_ns


def parse(case: Case, log: str) -> Outcome:
    """Read the log of a guest.

    :returns: the outcome
    :raises ValueError: if the guest did not end well
    """
    lines = collections.defaultdict(list)
    for line in log.splitlines():
        word, *rest = line.split() or ['']
        lines[word].append(rest)
    if ['pings', 'failures', '0'] not in lines['DONE']:
        raise ValueError(f'{case.name}: the guest failed')
    units, batch_ns = map(int, lines['batch'][0])
    pings = tuple(int(words[0]) for words in lines['ping'])
    length = len(pings) * case.own.period_us * supply.NS_PER_US
    return Outcome(case, pings, units, batch_ns, length)


def judge(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, bool]]:
    """Compare each case with the model, and batch work with the first one.

    :returns: a statement, and whether it is true
    """
    for outcome in outcomes:
        bound = outcome.case.bound_ns() + MARGIN_NS
        yield (
            f'{outcome.case.name}: {len(outcome.pings_ns)} answers within '
            f'{bound / 1e6:.2f} ms',
            max(outcome.pings_ns) <= bound,
        )
        if outcome.case.pool:
            ratio = outcome.units_per_s / outcomes[0].units_per_s
            yield (
                f'{outcome.case.name}: {ratio:.4f} of the batch work without '
                f'a pool, at least {LEAST_WORK}',
                ratio >= LEAST_WORK,
            )


def measure(case: Case, pings: int, image: str) -> Outcome:
    """Run a guest.

    :returns: the outcome
    :raises ValueError: if the guest failed
    """
    pool = case.pool
    numbers = (
        # As long for a short period as for a long one.
        pings * _LONG.period_us // case.own.period_us,
        case.own.runtime_us,
        case.own.period_us,
        pool.runtime_us if pool else 0,
        pool.period_us if pool else 10_000,
    )
    with tempfile.TemporaryDirectory() as place:
        log = pathlib.Path(place) / 'log'
        test = 'pings:' + ','.join(map(str, numbers))
        subprocess.run(
            [SCRIPTS / 'guest.sh', image, test, '1', log], check=False
        )
        return parse(case, log.read_text(errors='replace'))


def main(argv: list[str] | None = None) -> int:
    """Run it.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(
        prog='python -m experiments.spare',
        description=(__doc__ or '').partition('\n')[0],
    )
    parser.add_argument(
        '--pings', type=int, default=100, help='of each long period'
    )
    parser.add_argument(
        '--output', type=pathlib.Path, default=pathlib.Path('.'),
        metavar='DIR', help='for the tables and the figure',
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    try:
        subprocess.run([SCRIPTS / 'fetch.sh'], check=True, stdout=sys.stderr)
        built = subprocess.run(
            [SCRIPTS / 'build.sh', 'hcbs'],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        image = built.stdout.split()[-1]
        found = [measure(case, arguments.pings, image) for case in CASES]
    except (subprocess.CalledProcessError, OSError, ValueError) as err:
        print(err, file=sys.stderr)
        return 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(found, arguments.output)
    verdicts = list(judge(found))
    for words, kept in verdicts:
        print('ok  ' if kept else 'FAIL', words)
    return 0 if all(kept for _, kept in verdicts) else 1


def write(outcomes: Sequence[Outcome], place: pathlib.Path) -> None:
    """Write the tables and the figure, and print the first table."""
    heads = ('case', 'pings', 'least_ms', 'mean_ms', 'most_ms', 'bound_ms',
             'units_per_s', 'batch_share')  # fmt: skip
    rows = [_row(outcome) for outcome in outcomes]
    with (place / 'spare.csv').open('w', newline='') as file:
        csv.writer(file).writerows([heads, *rows])
    for row in (heads, *rows):
        print(' | '.join(row))
    with (place / 'spare-pings.csv').open('w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(('case', 'ping', 'answer_ns'))
        for outcome in outcomes:
            for number, took in enumerate(outcome.pings_ns):
                writer.writerow((outcome.case.name, number, took))
    _draw(outcomes, place / 'spare.svg')


def _row(outcome: Outcome) -> tuple[str, ...]:
    pings = outcome.pings_ns
    return (
        outcome.case.name,
        str(len(pings)),
        f'{min(pings) / 1e6:.3f}',
        f'{sum(pings) / len(pings) / 1e6:.3f}',
        f'{max(pings) / 1e6:.3f}',
        f'{outcome.case.bound_ns() / 1e6:.3f}',
        f'{outcome.units_per_s:.0f}',
        f'{outcome.batch_ns / outcome.length_ns:.4f}',
    )


def _draw(outcomes: Sequence[Outcome], path: pathlib.Path) -> None:
    pyplot.rc('svg', hashsalt='spare')
    canvas, axis = pyplot.subplots(figsize=(7.6, 3.2))
    for outcome in outcomes:
        step = outcome.case.own.period_us / 1e6
        axis.plot(
            [number * step for number in range(len(outcome.pings_ns))],
            [took / 1e6 for took in outcome.pings_ns],
            marker='.', linewidth=0.7, label=outcome.case.name,
        )  # fmt: skip
    axis.set(xlabel='seconds', ylabel='answer, ms', yscale='log')
    axis.legend(fontsize='small', title='(Q, P), ms')
    canvas.tight_layout()
    canvas.savefig(path, metadata={'Date': None})
    pyplot.close(canvas)


def _in_ms(reservation: Reservation) -> str:
    return (
        f'({reservation.runtime_us / 1000:g}, '
        f'{reservation.period_us / 1000:g})'
    )


if __name__ == '__main__':
    sys.exit(main())
