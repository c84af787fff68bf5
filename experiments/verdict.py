# SPDX-License-Identifier: Apache-2.0
"""One bound that the project states, and the findings about it."""

from collections.abc import Callable, Sequence
import dataclasses

from experiments import noises
from experiments.description import Point
from experiments.evaluate import Result


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A bound that was checked.

    :ivar what: the bound, a sentence
    :ivar found: the worst number that was found, in words
    :ivar points: the numbers of each point, a line for each
    """

    what: str
    found: str
    holds: bool
    points: tuple[str, ...] = ()


def reserved(result: Result) -> bool:
    """Whether the kernel guarantees a reservation here."""
    return bool(result.point.bandwidth) and result.point.kernel == 'hcbs'


def quiet(result: Result) -> bool:
    """Whether it does and nothing else is on the CPU."""
    return reserved(result) and result.point.noise == noises.NONE


def describe(point: Point) -> str:
    """A point in a few words."""
    words = [
        f'Q/P {point.bandwidth:g}, P {point.period_us / 1e3:g} ms',
        f'LDR {point.cpu_load / point.bandwidth:.3f}',
        f'1/lambda {point.inter_arrival_us / 1e3:g} ms',
    ]
    if point.link_bit_per_s:
        words.append(
            f'{point.size_is} {point.size_bytes:g} bytes at '
            f'{point.link_bit_per_s / 1e6:.4g} Mbit/s'
        )
    if point.cpus > 1:
        words.append(f'{point.cpus} CPUs')
    if point.noise != noises.NONE:
        words.append(f'beside {noises.KINDS[point.noise].words}')
    return ', '.join(words)


def each(
    results: Sequence[Result], words: Callable[[Result], str]
) -> tuple[str, ...]:
    """A line for each point, with its numbers."""
    return tuple(f'{describe(one.point)}: {words(one)}' for one in results)


def beyond(results: Sequence[Result]) -> str:
    """Number of requests later than the theorem allows, and of all."""
    late = sum(one.beyond for one in results)
    return f'{late} of {sum(one.count for one in results)} requests'
