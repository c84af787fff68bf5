# SPDX-License-Identifier: Apache-2.0
"""Measure some points with distwalk, the papers' own load, and with ours.

    python -m experiments.distwalk [--source DIR] [--output DIR]
    python -m experiments.distwalk --lab [COUNT] [--noise] [--source DIR]

Both send the same requests at the same instants to the HCBS guest: those of a
small figure of EDGE 2019 without a link. With --lab they send COUNT of them,
or 10,000, to containers of the lab, which has to be up, and only those for
half of a CPU: stock Linux sums reservations over the host. With --noise they
do so at one point, alone and beside endless tasks of a plain container, two
for each CPU, while the virtual switch runs before those tasks, and while it is
an ordinary process beside them. distwalk is compiled from its public source,
which is fetched if it is missing. Without it, this program reports that and
ends with EX_UNAVAILABLE. distwalk is under the GNU GPL, and not part of this
project.
"""

import argparse
from collections.abc import Iterator
import dataclasses
import os
import pathlib
import subprocess
import sys

from experiments import __main__ as command
from experiments import description, evaluate, guest, servers, verdict
from experiments.distwalk import containers
from lab import namespace, paths
from lab.console import LabError

PUBLIC = 'https://github.com/tomcucinotta/distwalk'
#: The version that was tested.
COMMIT = '9b00acca58dc9682be2eb92cc1f3a62598e92738'
PROGRAMS = ('dw_node', 'dw_client')
FIGURE = 'edge19-fig4ac'
#: Two for each CPU, so that no other process has one for itself.
HOGS = 2 * (os.cpu_count() or 1)


class Unavailable(Exception):
    """There is no distwalk; the text has the reason."""


def build(source: pathlib.Path) -> guest.Load:
    """Fetch and compile distwalk.

    :param source: its checkout; made if it is missing
    :raises Unavailable: if either fails
    """
    top = str(source)
    steps = [['make', '-C', f'{top}/src', *PROGRAMS]]
    if not source.exists():
        steps[:0] = [
            ['git', 'clone', '--quiet', PUBLIC, top],
            ['git', '-C', top, 'checkout', '--quiet', COMMIT],
        ]
    for step in steps:
        try:
            done = subprocess.run(step, check=False, stdout=subprocess.DEVNULL)
        except OSError as err:
            raise Unavailable(str(err)) from err
        if done.returncode:
            words = ' '.join(step)
            raise Unavailable(f'{words} ended with {done.returncode}')
    return guest.Load(
        pathlib.Path(__file__).with_name('load.c'),
        tuple(source / 'src' / name for name in PROGRAMS),
        cpus=1,
    )


def measure(load: guest.Load, cache: pathlib.Path) -> list[evaluate.Result]:
    """Measure the points with a load."""

    def source(
        kernel: str, tasks: command.Tasks, where: pathlib.Path
    ) -> command.Runs:
        return guest.run(kernel, tasks, where, load)

    figure = description.load(FIGURE)
    return command.measure(figure, 'small', cache, source)


def measure_in_lab(load: guest.Load, count: int) -> list[evaluate.Result]:
    """Measure the points that fit on stock Linux in the lab's containers."""

    def source(
        kernel: str, tasks: command.Tasks, where: pathlib.Path
    ) -> command.Runs:
        return containers.run(tasks, load)

    figure = description.load(FIGURE)
    small = figure.small | {'bandwidth': [0.5], 'count': count}
    figure = dataclasses.replace(figure, small=small)
    return command.measure(figure, 'small', paths.RESULTS, source)


def measure_noise(load: guest.Load, name: str, count: int) -> Iterator[str]:
    """Measure the effect of noise, with the switch before it and beside it.

    :param name: name of the load
    :returns: lines for people
    """
    point = description.Point(bandwidth=0.5, ldr=0.5)
    task = guest.Task('noise', point, evaluate.SKIPPED + count, command.SEED)
    for ahead in (True, False):
        alone, beside = (
            evaluate.Numbers.of(
                containers.run(
                    [task], load, containers.Conditions(hogs, ahead)
                )['noise'].response_ns[evaluate.SKIPPED :]
            )
            for hogs in (0, HOGS)
        )
        yield (
            f'{name}, the switch {"before" if ahead else "beside"} the noise:'
            f' mean {alone.mean_s * 1e3:.3f} and {beside.mean_s * 1e3:.3f} ms'
            f' ({beside.mean_s / alone.mean_s:.2f}), p99'
            f' {alone.percentile_s * 1e3:.3f} and'
            f' {beside.percentile_s * 1e3:.3f} ms'
            f' ({beside.percentile_s / alone.percentile_s:.2f})'
        )


def line(ours: evaluate.Result, theirs: evaluate.Result) -> str:
    """A point, measured by both."""
    words = []
    for name in ('mean_s', 'percentile_s'):
        one, other = (getattr(r.measured, name) for r in (ours, theirs))
        more = other / one - 1
        words.append(f'{one * 1e3:.3f} and {other * 1e3:.3f} ms ({more:+.1%})')
    return (
        f'{verdict.describe(ours.point)}: mean {words[0]}, p99 {words[1]}, '
        f'mean against the scheduler {ours.scheduler_error:+.1%} and '
        f'{theirs.scheduler_error:+.1%}, lost {ours.lost} and {theirs.lost}'
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line.

    :param words: those of this program by default
    """
    parser = argparse.ArgumentParser(
        prog='python -m experiments.distwalk',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--source',
        type=pathlib.Path,
        default=paths.WORK / 'cache/distwalk',
        help='its checkout (default: %(default)s)',
    )
    parser.add_argument(
        '--output',
        type=pathlib.Path,
        help="directory of the guest's results (default: "
        f'{paths.RESULTS / "experiments"})',
    )
    parser.add_argument(
        '--lab',
        type=int,
        nargs='?',
        const=10_000,
        metavar='COUNT',
        help="measure in the lab's containers, with COUNT requests",
    )
    parser.add_argument(
        '--noise',
        action='store_true',
        help='measure one point alone and beside endless tasks; with --lab',
    )
    options = parser.parse_args(words)
    if options.lab is None and options.noise:
        parser.error('--noise belongs to --lab')
    if options.lab is not None and options.output is not None:
        parser.error('--output belongs to the guest, not to --lab')
    if options.lab is not None and options.lab < 1:
        parser.error('COUNT is at least 1')
    return options


def report(options: argparse.Namespace) -> Iterator[str]:
    """Measure as the options request.

    :returns: lines for people
    :raises Unavailable: if there is no distwalk
    :raises Failed: if the guest did not measure
    :raises LabError: if the lab did not
    """
    theirs = build(options.source)
    if options.noise:
        yield from measure_noise(guest.OURS, 'ours', options.lab)
        yield from measure_noise(theirs, 'distwalk', options.lab)
        return
    output = options.output or paths.RESULTS / 'experiments'
    found = [
        measure_in_lab(load, options.lab)
        if options.lab
        else measure(load, output / 'cache')
        for load in (guest.OURS, theirs)
    ]
    for pair in zip(*found, strict=True):
        yield line(*pair)


def main() -> int:
    """Run the command.

    :returns: the exit code
    """
    options = arguments()
    if options.lab and not namespace.inside():
        return servers.again('experiments.distwalk')
    try:
        for text in report(options):
            print(text, flush=True)
    except Unavailable as err:
        print(f'distwalk: skipped, {err}')
        return os.EX_UNAVAILABLE
    except (guest.Failed, LabError) as err:
        print(f'distwalk: {err}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
