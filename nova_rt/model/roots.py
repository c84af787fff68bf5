# SPDX-License-Identifier: Apache-2.0
"""Numerical search for the boundary between too little and enough."""

from collections.abc import Callable
import math

# Doubles are used up long before, unless a function is not monotone.
_MAX_STEPS = 500


def boundary(
    missing: Callable[[float], float],
    bad: float,
    good: float,
    tolerance: float = 0.0,
) -> float:
    """Find the point at which ``missing`` falls to zero, from the good side.

    Chandrupatla's method (Advances in Engineering Software 28, 1997, pages
    145-149): inverse quadratic interpolation where that is safe, bisection
    elsewhere. It needs a change of sign and nothing else: jumps and infinite
    values are allowed.

    :param missing: positive where something is missing, else zero or less
    :param bad: a point with something missing; ``missing`` is not called here
    :param good: a point with nothing missing, on either side of ``bad``
    :param tolerance: relative distance that will do, for steps and not curves
    :returns: a point at which nothing is missing, within the last bits of a
        double of the boundary (which is at least 1e-60 away from zero)
    """
    # a is the newest end, b the one on the other side, c the one before.
    a, b, c = good, bad, bad
    at_a, at_b, at_c = missing(good), math.inf, math.inf
    share = 0.5
    for _ in range(_MAX_STEPS):
        point = a + share * (b - a)
        if point in (a, b) or at_a == 0:
            break
        if abs(b - a) < tolerance * abs(a):
            break
        value = missing(point)
        if (value > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = point, value
        least = 2 * math.ulp(max(abs(a), abs(b))) / abs(b - a)
        if least > 0.5:
            break
        share = _interpolated(a, at_a, b, at_b, c, at_c)
        share = min(max(share, least), 1 - least)
    return b if at_a > 0 else a


def _interpolated(
    a: float, at_a: float, b: float, at_b: float, c: float, at_c: float
) -> float:
    """Next point to try, as a share of the way from a to b."""
    if not (math.isfinite(at_a - at_b) and math.isfinite(at_c)):
        return 0.5
    if at_c in (at_a, at_b):
        return 0.5
    chi = (a - b) / (c - b)
    phi = (at_a - at_b) / (at_c - at_b)
    if not (phi * phi < chi and (1 - phi) * (1 - phi) < 1 - chi):
        return 0.5
    return at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (
        b - a
    ) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
