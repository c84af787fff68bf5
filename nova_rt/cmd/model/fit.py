# SPDX-License-Identifier: Apache-2.0
"""``fit``: from service times that were measured to a model."""

import argparse
import shlex
from typing import Any

from nova_rt.cmd.model import columns, question, samples
from nova_rt.model import goodness, units
from nova_rt.model.services import Times

_PERCENTILES = (0.5, 0.9, 0.99, 0.999)


class Fit(question.Question):
    """Say what measured service times look like, and which model suits.

    The file is CSV with one time in each line, or with a column of times:
    0.8ms, or plain numbers with --csv-unit.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Offer the file.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('csv', help='The file.')
        samples.add_options(parser)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Fit.

        :returns: properties and their values
        """
        times_s = samples.read(given.csv, given.csv_column, given.csv_unit)
        found = goodness.fit(times_s)
        said: dict[str, Any] = {
            'Times': found.number,
            'Mean': columns.Duration(found.mean_s),
            'Variation': columns.Share(found.variation),
            'Shortest': columns.Duration(found.shortest_s),
        }
        for each in _PERCENTILES:
            # Ten times above it, or it is an accident.
            if found.number * (1 - each) >= 10:
                said[f'p{units.tell_percentile(each)}'] = columns.Duration(
                    found.percentile_s(each)
                )
        said['Longest'] = columns.Duration(found.longest_s)
        distance = found.goodness
        said['Distance'] = columns.Share(distance.distance)
        said['Exponential'] = (
            f'p < {distance.below:g}' if distance.below < 1 else 'p > 0.15'
        )
        said['Suits'] = str(found.suits)
        said['Why'] = columns.Text(f'{found.why[0].upper()}{found.why[1:]}.')
        said['Options'] = columns.Text(_options(given, found))
        return tuple(said), tuple(said.values())


def _options(given: argparse.Namespace, found: goodness.Fit) -> str:
    """What to give to the other commands."""
    if found.suits is Times.MEASURED:
        words = ['--measured', given.csv]
        for option, value in (
            ('--csv-column', given.csv_column),
            ('--csv-unit', given.csv_unit),
        ):
            words += [option, value] if value is not None else []
        return shlex.join(words)
    time = f'{found.mean_s * 1e6:.6g}us'
    if found.suits is Times.CONSTANT:
        # Not the mean: that would be too short for some.
        time = f'{found.longest_s * 1e6:.6g}us'
        return f'--service-time {time} --distribution constant'
    return f'--service-time {time}'
