# SPDX-License-Identifier: Apache-2.0
"""Bounds of the model's quantities, and checks that refuse all else."""

from nova_rt import exception

#: Bounds of every quantity of the model, in any of its units, so that no
#: square overflows and no difference is rounded to zero.
LEAST, MOST = 1e-15, 1e15


def positive(name: str, value: float) -> float:
    """Check a quantity that must be above 0, such as a rate or a time.

    :returns: the value
    :raises InvalidQuantity: unless it is above 0, and in the bounds above
    """
    if not LEAST <= value <= MOST:
        raise exception.InvalidQuantity(
            f'{name} is {value:g}: it must be from {LEAST:g} to {MOST:g}'
        )
    return value


def not_negative(name: str, value: float) -> float:
    """Check a quantity that may be zero, such as a latency.

    :returns: the value
    :raises InvalidQuantity: unless it is at least 0, and in the bounds above
    """
    if not 0 <= value <= MOST:
        raise exception.InvalidQuantity(
            f'{name} is {value:g}: it must be from 0 to {MOST:g}'
        )
    return value


def fraction(value: float) -> float:
    """Check the fraction of requests that must meet the deadline.

    :returns: the value
    :raises InvalidQuantity: unless it is above 0 and below 1
    """
    if not LEAST <= value < 1:
        raise exception.InvalidQuantity(
            f'the fraction of requests in time is {value:g}: it must be '
            'above 0 and below 1, that is, a percentile between 0 and 100'
        )
    return value


def bandwidth(value: float) -> float:
    """Check a bandwidth Q/P.

    :returns: the value
    :raises InvalidQuantity: unless it is above 0 and at most 1, a whole CPU
    """
    if not LEAST <= value <= 1:
        raise exception.InvalidQuantity(
            f'the bandwidth is {value:g}: it must be above 0 and at most 1, '
            'a whole CPU'
        )
    return value


def whole(name: str, value: int, least: int = 1) -> int:
    """Check a number of things.

    :returns: the value
    :raises InvalidQuantity: unless it is an int of at least ``least``
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise exception.InvalidQuantity(
            f'{name} is {value!r}: it must be a whole number, at least {least}'
        )
    return value
