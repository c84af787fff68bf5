# SPDX-License-Identifier: Apache-2.0
"""Compare reservations that follow a load with static ones.

    python -m experiments.feedback [--trace FILE ...] [--output DIR]

A trace is a file with one number in each line, the requests of a second. The
four of Autothrottle's evaluation are in microsoft/autothrottle on GitHub.
Without them, three of the same kinds are made. The service is simulated; the
laws are those of nova-rt-compute. The results are printed as a table, and
written as feedback.csv and feedback.svg.
"""

import argparse
import concurrent.futures
import csv
import pathlib
import sys

import matplotlib

matplotlib.use('Agg')

from matplotlib import pyplot

from experiments.feedback import compare, traces

_SHOWN = ('static', 'throttled, target 0.1', 'quantile 0.95, surplus 0.25')
#: Seconds between two points of a line.
_STEP_S = 10
_HEADS = (
    'trace', 'reservation', 'late', 'requests', 'reserved', 'less than static',
    'static with as many late', 'changes',
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run it.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(
        prog='python -m experiments.feedback',
        description=(__doc__ or '').partition('\n')[0],
    )
    parser.add_argument(
        '--trace', type=pathlib.Path, action='append', metavar='FILE',
        help='requests of each second, one number a line; may be repeated',
    )  # fmt: skip
    parser.add_argument(
        '--seconds', type=int, default=3600, help='of traces that are made'
    )
    parser.add_argument(
        '--output', type=pathlib.Path, default=pathlib.Path('.'),
        metavar='DIR', help='for the table and the figure',
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    try:
        rates = _find_traces(arguments)
    except (OSError, ValueError) as err:
        print(err, file=sys.stderr)
        return 2
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = list(pool.map(_compare, rates.items()))
    rows = [row for some in found for row in some]
    arguments.output.mkdir(parents=True, exist_ok=True)
    with (arguments.output / 'feedback.csv').open('w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(_HEADS)
        writer.writerows(map(_describe, rows))
    for row in rows:
        print(' | '.join(_describe(row)))
    _draw(rates, rows, arguments.output / 'feedback.svg')
    return 0


def _find_traces(arguments: argparse.Namespace) -> dict[str, traces.Rates]:
    if arguments.trace:
        return {path.stem: traces.read(path) for path in arguments.trace}
    return {
        kind: traces.make(kind, arguments.seconds, compare.SEED)
        for kind in traces.KINDS
    }


def _compare(named: tuple[str, traces.Rates]) -> list[compare.Row]:
    return list(compare.compare(*named))


def _describe(row: compare.Row) -> tuple[str, ...]:
    return (
        row.trace,
        row.name,
        str(row.late),
        str(row.requests),
        f'{row.reserved:.3f}',
        # The static one is the smallest without a late request.
        f'{1 - row.reserved / row.static:.1%}',
        f'{row.equal:.3f}',
        str(row.changes),
    )


def _draw(
    rates: dict[str, traces.Rates],
    rows: list[compare.Row],
    path: pathlib.Path,
) -> None:
    pyplot.rc('svg', hashsalt='feedback')
    canvas, axes = pyplot.subplots(
        len(rates), 1, figsize=(7.6, 2.4 * len(rates)), squeeze=False
    )
    for axis, (trace, some) in zip(axes.flat, rates.items(), strict=True):
        load = [rate * compare.MEAN_S for rate in some[::_STEP_S]]
        minutes = [second / 60 for second in range(0, len(some), _STEP_S)]
        axis.plot(minutes, load, color='0.7', label='load')
        for row in rows:
            if row.trace == trace and row.name in _SHOWN:
                axis.plot(
                    minutes, row.course[::_STEP_S], label=row.name, linewidth=1
                )
        axis.set(title=trace, ylabel='CPUs', ylim=(0, 1))
    axes.flat[-1].set_xlabel('minutes')
    axes.flat[0].legend(fontsize='small', ncols=2)
    canvas.tight_layout()
    canvas.savefig(path, metadata={'Date': None})
    pyplot.close(canvas)


if __name__ == '__main__':
    sys.exit(main())
