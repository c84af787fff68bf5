# SPDX-License-Identifier: Apache-2.0
"""``fit``: from service times that were measured to a model, and a size."""

import argparse
import shlex
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import answers, columns, options, question, samples
from nova_rt.model import goodness, services, sizing, units
from nova_rt.model.services import Times

_PERCENTILES = (0.5, 0.9, 0.99, 0.999)


class Fit(question.Question):
    """Describe measured service times, and choose a model for them.

    The file is CSV with one time in each line, or with a column of times:
    0.8ms, or plain numbers with --csv-unit. With a rate, a deadline and a
    percentile, requests with these times are simulated on servers that have
    their budgets as late as earliest deadline first allows, and the smallest
    reservation that is enough for them is the answer.
    """

    ON_DEMAND = frozenset({'Flavor set'})

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Offer the file.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('csv', help='The file.')
        samples.add_options(parser)
        group = parser.add_argument_group('reservation, by simulation')
        options.add_rate(group, required=False)
        options.add_deadline(group, required=False)
        options.add_percentile(group, required=False)
        options.add_latency(group)
        options.add_period(group)
        return parser

    def answer(self, given: argparse.Namespace) -> question.Answer:
        """Fit.

        :returns: properties and their values
        """
        wanted = [given.rate, given.deadline, given.percentile]
        asked = None not in wanted
        if not asked and wanted != [None] * 3:
            raise exception.InvalidQuantity(
                '--rate, --deadline and --percentile go together'
            )
        if not asked and (given.latency, given.period) != (None, None):
            raise exception.InvalidQuantity(
                '--latency and --period are for --rate'
            )
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
        if asked:
            said |= _size(given, times_s)
        return tuple(said), tuple(said.values())


def _size(given: argparse.Namespace, times_s: list[float]) -> dict[str, Any]:
    """The smallest reservation, by simulation."""
    # Here, because only this needs numpy.
    from nova_rt.model import tried

    latency_s = given.latency or 0.0
    trial = tried.Trial(
        times_s, given.rate, given.deadline, given.percentile, latency_s
    )
    service = services.Service(
        Times.MEASURED, samples_s=times_s, latency_s=latency_s
    )
    choice = services.choose(service)
    bound = sizing.size(
        choice.model, given.rate, given.deadline, given.percentile,
        trial.limits, given.period,
    ).reservation  # fmt: skip
    found = trial.size(bound)
    said: dict[str, Any] = {'By bound': str(bound)}
    sure = (
        f'The runtime is the smallest for which {tried.REQUESTS} simulated '
        'requests, at random instants, met the deadline with 99.9 % '
        'confidence, on a server that comes as late as it can. The sample is '
        'all that is known of the CPU times. The bound is proved.'
    )
    if found is None:
        sure = (
            'The bound is the answer: its interval in simulation is not '
            'within the deadline.'
        )
    else:
        simulated = found.percentile_s
        tell = units.tell_duration
        name = units.tell_percentile(given.percentile)
        said[f'Response p{name}'] = columns.Told(
            {
                'Simulated': simulated.value,
                'Low': simulated.low,
                'High': simulated.high,
            },
            f'{tell(simulated.value)} +- {tell(simulated.half_width)}',
        )
    said['How sure'] = columns.Text(sure)
    chosen = bound if found is None else found.reservation
    return said | answers.describe(chosen, 1)


def _options(given: argparse.Namespace, found: goodness.Fit) -> str:
    """Return the options to give to the other commands."""
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
