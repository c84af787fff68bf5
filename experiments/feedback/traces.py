# SPDX-License-Identifier: Apache-2.0
"""Traces of a load: requests per second, one value for each second.

Public ones are read from files. The kinds made here have the shape of the four
of Autothrottle's evaluation: a slow wave, a calm load with a rare large burst,
and a load that rises and falls all the time.
"""

import pathlib

import numpy

from experiments.feedback.service import Requests
from nova_rt.model import simulation

Rates = list[int]
#: Requests per second between which the loads of all kinds move.
_LOW, _HIGH = 80, 400


def read(path: pathlib.Path) -> Rates:
    """Read a file with a number in each line.

    :returns: the numbers
    :raises ValueError: if it has another line, or none
    """
    rates = [int(line) for line in path.read_text('ascii').split()]
    if not rates or min(rates) < 0:
        raise ValueError(f'{path}: expected one rate in each line')
    return rates


def _walk(levels: list[int], slope: int, rng: numpy.random.Generator) -> Rates:
    """Go from level to level by at most so much a second."""
    rates = [levels[0]]
    for level in levels[1:]:
        while abs(level - rates[-1]) > slope:
            step = int(rng.integers(0, slope + 1))
            rates.append(rates[-1] + (step if level > rates[-1] else -step))
    return rates


def make(kind: str, seconds: int, seed: int) -> Rates:
    """Make a trace of a kind.

    :param kind: one of :data:`KINDS`
    :returns: as many rates as seconds
    """
    rng = numpy.random.default_rng(seed)
    third = _LOW + (_HIGH - _LOW) // 3
    if kind == 'wave':
        bend = numpy.sin(numpy.linspace(-numpy.pi / 2, 1.5 * numpy.pi, 60))
        middle, height = (_LOW + _HIGH) / 2, (_HIGH - _LOW) / 2
        levels = [round(middle + height * each) for each in bend]
        slope = 2
    elif kind == 'burst':
        levels = [int(each) for each in rng.integers(_LOW, third, 60)]
        levels[30] = _HIGH
        slope = 2
    else:
        levels = [int(each) for each in rng.integers(_LOW, 2 * third, 600)]
        slope = 10
    rates = _walk(levels, slope, rng)
    # As fast or slow as fits the time; the slopes stay alike.
    places = numpy.linspace(0, len(rates) - 1, seconds)
    return [rates[round(place)] for place in places]


KINDS = ('wave', 'burst', 'noise')


def draw(rates: Rates, mean_s: float, seed: int) -> Requests:
    """Draw requests: Poisson in each second, with exponential CPU times.

    :param mean_s: of the CPU times
    :returns: the requests, by arrival
    """
    rng = numpy.random.default_rng(seed)
    counts = rng.poisson(rates)
    seconds = numpy.repeat(numpy.arange(len(rates)), counts)
    within = rng.random(len(seconds))
    arrivals_ns = numpy.sort(((seconds + within) * 1e9).astype(numpy.int64))
    works_ns = simulation.exponential_ns(mean_s, len(seconds), rng)
    return Requests(
        arrivals_ns.tolist(), works_ns.tolist(), len(rates) * 10**9
    )
