# SPDX-License-Identifier: Apache-2.0
"""Registrations of a server that is alone and beside noise in turns.

A server that becomes slower in the course of a run does so in both cases.
"""

from collections.abc import Sequence
import math

import numpy

from lab.measure import distribution
from nova_rt.model import confidence

PERCENT = 99


def merge(turns: Sequence[distribution.Series]) -> list[distribution.Series]:
    """Put the turns of each case together.

    :returns: one for each case, in the order in which they began
    """
    merged: dict[tuple[str, str], list[int | None]] = {}
    for turn in turns:
        times = merged.setdefault((turn.server, turn.beside), [])
        times += [*turn.times_us, *[None] * turn.lost]
    return [
        distribution.Series.of(*case, times) for case, times in merged.items()
    ]


def ratio(
    turns: Sequence[distribution.Series], server: str
) -> tuple[float, float, float]:
    """Compare a server beside noise with the same alone, turn by turn.

    The logarithm of the factor by which noise multiplies the 99th percentile
    is nearly independent from turn to turn.

    :param turns: turns, as many of each case as :mod:`confidence` has batches
    :returns: the ratio of the percentiles, and the ends of its 95 % confidence
        interval
    """
    logs_us = {
        is_alone: numpy.array(
            [
                math.log(turn.percentile(PERCENT))
                for turn in turns
                if turn.server == server
                and (turn.beside == distribution.ALONE) == is_alone
            ]
        )
        for is_alone in (True, False)
    }
    found = confidence.of_batches(
        logs_us[False] - logs_us[True], confidence.T_95
    )
    return math.exp(found.value), math.exp(found.low), math.exp(found.high)
