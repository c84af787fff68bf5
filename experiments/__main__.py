# SPDX-License-Identifier: Apache-2.0
"""Measure the papers' figures and compare them with the model.

    python -m experiments list
    python -m experiments run SET [FIGURE ...] [--output DIR] [--jobs N]
    python -m experiments judge SET [FIGURE ...] [--output DIR | --points FILE]

SET is check (a minute; `make model`), small (ten minutes) or full
(hours).

``run`` measures in QEMU guests under a virtual clock, so the numbers are the
same wherever it runs. It writes a report with all figures, report/index.html,
judges them, and prints each point. ``judge`` does the same with the samples
that ``run`` left, or with the numbers in a report's points.csv, and needs
neither kernel nor QEMU. Both end with 1 if a bound that the project states is
broken.
"""

import argparse
from collections.abc import Callable, Sequence
import concurrent.futures
import os
import pathlib
import sys
import time

from experiments import (
    description,
    evaluate,
    guest,
    judge,
    points,
    report,
    samples,
)
from experiments.description import Figure
from experiments.verdict import Verdict
from lab import paths

SEED = 1
PINGS = 100


def tasks(
    figure: Figure, which: str
) -> dict[tuple[str, int], list[guest.Task]]:
    """Tasks that measure a figure, by kernels and numbers of CPUs.

    Equal arrivals, CPU times and sizes for each point, except their means:
    curves differ by the parameters that the figure varies, not by chance.
    """
    found: dict[tuple[str, int], list[guest.Task]] = {}
    for number, point in enumerate(figure.points(which)):
        machine = point.kernel, point.cpus
        if machine not in found:
            found[machine] = [_ping(point)]
        found[machine].append(_task(f'p{number}', point, figure.count(which)))
    return found


def _task(name: str, point: description.Point, count: int) -> guest.Task:
    return guest.Task(name, point, evaluate.SKIPPED + count, SEED)


def _ping(point: description.Point) -> guest.Task:
    """Requests of no CPU time, through no link, for the latency."""
    bandwidth = point.bandwidth or 0.5
    ping = description.Point(
        bandwidth=bandwidth,
        load=1e-6,
        delay_us=point.delay_us,
        kernel=point.kernel,
        cpus=point.cpus,
    )
    return _task('ping', ping, PINGS)


Tasks = Sequence[guest.Task]
Runs = dict[str, samples.Run]
Source = Callable[[str, Tasks, pathlib.Path], Runs]


def measure(
    figure: Figure, which: str, cache: pathlib.Path, source: Source
) -> list[evaluate.Result]:
    """Measure all points of a figure, or take them as they were measured."""
    found = []
    for (kernel, _), wanted in tasks(figure, which).items():
        runs = source(kernel, wanted, cache)
        way = evaluate.Way.of(runs['ping'])
        found += [
            evaluate.evaluate(task.point, runs[task.name], way)
            for task in wanted
            if task.name != 'ping'
        ]
    return found


def chosen(options: argparse.Namespace) -> list[Figure]:
    """The requested figures that are in the set.

    :raises Refused: if none is
    """
    names = list(dict.fromkeys(options.figure or description.names()))
    figures = [description.load(name) for name in names]
    figures = [figure for figure in figures if figure.count(options.set)]
    if not figures:
        raise description.Refused(
            f'none of these figures is in the {options.set} set'
        )
    return figures


def run(options: argparse.Namespace) -> int:
    """Measure, judge and report."""
    begin = time.monotonic()
    figures = chosen(options)
    kernels = {p.kernel for f in figures for p in f.points(options.set)}
    for kernel in sorted(kernels):
        # Before the figures share it.
        guest.kernel(kernel)
    print(f'kernels: {time.monotonic() - begin:.0f} s', flush=True)
    results: dict[str, list[evaluate.Result]] = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {
            pool.submit(
                measure,
                figure,
                options.set,
                options.output / 'cache',
                guest.run,
            ): figure
            for figure in figures
        }
        for done in concurrent.futures.as_completed(waiting):
            name = waiting[done].name
            if done.exception():
                pool.shutdown(wait=False, cancel_futures=True)
            results[name] = done.result()
            print(
                f'{time.monotonic() - begin:5.0f} s  {name}: '
                f'{len(results[name])} points',
                flush=True,
            )
    results = {figure.name: results[figure.name] for figure in figures}
    code = finish(options, figures, results)
    print(f'{time.monotonic() - begin:.0f} s')
    return code


def judged(options: argparse.Namespace) -> int:
    """Judge the stored samples, and report; or the numbers of a file."""
    figures = chosen(options)
    if options.points:
        known = points.read(options.points)
        names = [each.name for each in figures if each.name in known]
        return _print_verdicts(
            judge.verdicts({name: known[name] for name in names})
        )
    results = {
        figure.name: measure(
            figure, options.set, options.output / 'cache', guest.stored
        )
        for figure in figures
    }
    return finish(options, figures, results)


def finish(
    options: argparse.Namespace,
    figures: Sequence[Figure],
    results: dict[str, list[evaluate.Result]],
) -> int:
    """Write the report, and print each bound with its points.

    :returns: the exit code: 1 if one is broken
    """
    verdicts = judge.verdicts(results)
    path = report.write(
        options.output / 'report', options.set, figures, results, verdicts
    )
    code = _print_verdicts(verdicts)
    print(path)
    return code


def _print_verdicts(verdicts: Sequence[Verdict]) -> int:
    for verdict in verdicts:
        if verdict.points:
            print(f'\n{verdict.what}:')
            print('\n'.join(f'  {line}' for line in verdict.points))
    print()
    for verdict in verdicts:
        word = 'holds ' if verdict.holds else 'BROKEN'
        print(f'{word} {verdict.what}: {verdict.found}')
    return int(not all(verdict.holds for verdict in verdicts))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not 1 or more')
    return int(text)


def arguments() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog='python -m experiments',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar='COMMAND')
    runs = commands.add_parser('run', help='measure, judge and report')
    again = commands.add_parser('judge', help='judge what was measured')
    for command in (runs, again):
        command.add_argument('set', choices=description.SETS)
        command.add_argument('figure', nargs='*', help='only these')
        command.add_argument(
            '--output',
            type=pathlib.Path,
            default=paths.RESULTS / 'experiments',
            help='directory (default: %(default)s)',
        )
    again.add_argument(
        '--points',
        type=pathlib.Path,
        metavar='FILE',
        help='judge the numbers of report/points.csv of any run instead',
    )
    again.set_defaults(do=judged)
    runs.add_argument(
        '--jobs',
        type=_positive,
        metavar='N',
        default=os.cpu_count() or 1,
        help='guests at a time (default: one for each CPU)',
    )
    runs.set_defaults(do=run)
    listing = commands.add_parser('list', help='name the figures')
    listing.set_defaults(do=show)
    return parser


def show(_: argparse.Namespace) -> int:
    """Name the figures."""
    for name in description.names():
        figure = description.load(name)
        counts = [len(list(figure.points(each))) for each in description.SETS]
        numbers = ''.join(f'{count:>4}' for count in counts)
        print(f'{name:<14}{numbers}  {figure.title}')
    return 0


def main() -> int:
    """Run the command.

    :returns: the exit code: 1 for a broken bound, 2 for a bad request
    """
    options = arguments().parse_args()
    try:
        code: int = options.do(options)
    except description.Refused as err:
        print(f'experiments: {err}', file=sys.stderr)
        return 2
    except (guest.Failed, samples.Malformed) as err:
        print(f'experiments: {err}', file=sys.stderr)
        return 1
    return code


if __name__ == '__main__':
    sys.exit(main())
