# SPDX-License-Identifier: Apache-2.0
"""Times of the simulations, and places of budgets in their periods."""

import enum

import numpy
import numpy.typing

Nanoseconds = numpy.typing.NDArray[numpy.int64]


class Position(enum.StrEnum):
    """Position of a container's budget before its deadline."""

    #: at once: it is alone, or has the shortest period
    FIRST = 'first'
    #: as late as the guarantee allows: others go before it
    LAST = 'last'
    #: anywhere, each place as likely as the others
    RANDOM = 'random'
