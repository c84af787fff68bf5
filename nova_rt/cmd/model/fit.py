# SPDX-License-Identifier: Apache-2.0
"""``fit``: CPU times that were measured, and a size for them."""

import argparse
import math
import shlex
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import (
    answers,
    ask,
    columns,
    options,
    samples,
)
from nova_rt.model import units

#: Fewer times are too few to find their distribution.
LEAST = 20
_PERCENTILES = (0.5, 0.9, 0.99, 0.999)
# All times are within this of their mean: the longest will do for all.
_CONSTANT = 0.01


class Fit(ask.Reservation):
    """Describe measured CPU times, and size a reservation for them.

    The file is CSV with one time in each line, or with a column of times:
    0.8ms, or plain numbers with --csv-unit. With --deadline and --percentile
    the answer is that of the command reservation with --measured.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Offer the file."""
        parser.add_argument('csv', help='The file.')
        samples.add_options(parser)
        before = len(parser._actions)
        group = parser.add_argument_group('reservation')
        options.add(group, 'rate', 'deadline', 'percentile')
        options.add_requests(parser, group)
        ask.add_needs(parser)
        self._needs = parser._actions[before:]

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Describe the times."""
        wanted = given.deadline is not None
        if wanted != (given.percentile is not None):
            raise exception.InvalidQuantity(
                '--deadline and --percentile go together'
            )
        for option in self._needs:
            if not wanted and getattr(given, option.dest) != option.default:
                raise exception.InvalidQuantity(
                    f'{option.option_strings[-1]} is for --deadline'
                )
        times_s = samples.read(given.csv, given.csv_column, given.csv_unit)
        if len(times_s) < LEAST:
            raise exception.InvalidQuantity(
                f'{len(times_s)} service times are too few: there must be at '
                f'least {LEAST}'
            )
        said = _describe(times_s)
        said['Options'] = columns.Text(_options(given, times_s))
        cautions = answers.correlated(times_s)
        if wanted:
            given.measured, given.plot = given.csv, None
            given.service_time = given.distribution = None
            # The mean of response times is another one.
            more = super().answer(given)
            said['Mean time'] = said.pop('Mean')
            said = {f'Time {name}' if name in more else name: value
                    for name, value in said.items()} | more  # fmt: skip
        elif cautions:
            said['Caution'] = columns.Text(' '.join(cautions))
        return said


def _describe(times_s: list[float]) -> dict[str, Any]:
    ordered = sorted(times_s)
    count = len(ordered)
    mean_s = math.fsum(ordered) / count
    variation = math.fsum((each / mean_s - 1) ** 2 for each in ordered) / count
    said: dict[str, Any] = {
        'Times': count,
        'Mean': columns.Duration(mean_s),
        'Variation': columns.Share(variation),
        'Shortest': columns.Duration(ordered[0]),
    }
    for each in _PERCENTILES:
        # Ten times above it, or it is an accident.
        if count * (1 - each) >= 10:
            rank = math.ceil(each * count)
            said[f'p{units.tell_percentile(each)}'] = columns.Duration(
                ordered[rank - 1]
            )
    return said | {'Longest': columns.Duration(ordered[-1])}


def _options(given: argparse.Namespace, times_s: list[float]) -> str:
    """Return the options to give to the other commands."""
    mean_s, longest_s = math.fsum(times_s) / len(times_s), max(times_s)
    if longest_s - min(times_s) <= _CONSTANT * mean_s:
        # Not the mean: that would be too short for some.
        time = f'{longest_s * 1e6:.6g}us'
        return f'--service-time {time} --distribution constant'
    words = ['--measured', given.csv]
    for option, value in (
        ('--csv-column', given.csv_column),
        ('--csv-unit', given.csv_unit),
    ):
        words += [option, value] if value is not None else []
    return shlex.join(words)
