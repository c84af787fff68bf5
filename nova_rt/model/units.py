# SPDX-License-Identifier: Apache-2.0
"""Quantities as people write them: 10ms, 500/s, 64Mbit, 1KiB, 99."""

from collections.abc import Mapping
import decimal
import math
import re

from nova_rt import exception

_SPELLING = re.compile(
    r'([0-9]{1,18}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,3})?)\s?'
    '([a-zA-Z/%\u00b5\u03bc]*)',
    re.ASCII,
)
_DURATIONS = {
    'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0, 'min': 60.0,
    # The sign for micro, and the Greek letter.
    '\u00b5s': 1e-6, '\u03bcs': 1e-6,
}  # fmt: skip
_RATES = {
    f'/{unit}': 1 / seconds
    for unit, seconds in (*_DURATIONS.items(), ('h', 3600.0))
}
_PREFIXES = {
    '': 1.0, 'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9,
    'Ki': 2.0**10, 'Mi': 2.0**20, 'Gi': 2.0**30,
}  # fmt: skip
_SIZES = {
    prefix + unit: factor * bits
    for prefix, factor in _PREFIXES.items()
    for unit, bits in (('bit', 1), ('b', 1), ('B', 8))
}
# tc writes mbit, and means a million bits in a second.
_LINKS = {
    unit + end: bits
    for unit, bits in (*_SIZES.items(), ('mbit', 1e6), ('gbit', 1e9))
    for end in (('', '/s') if unit.endswith('bit') else ('/s',))
}
_PERCENTS = {'': 1.0, '%': 1.0}


def _parse(
    what: str, text: str, units: Mapping[str, float], zero: bool = False
) -> float:
    """Read a number with one of these units: above 0, or also 0."""
    shown = repr(text if len(text) <= 40 else text[:40] + '...')
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise exception.InvalidQuantity(
            f'{shown} is not a {what}: write a number and a unit, as in '
            f'{_EXAMPLES[what]}'
        )
    if match[2] not in units:
        problem = f'has the unit {match[2]!r}' if match[2] else 'has no unit'
        raise exception.InvalidQuantity(
            f'{shown} {problem}: a {what} is written as in {_EXAMPLES[what]}'
        )
    if zero and not decimal.Decimal(match[1]):
        return 0.0
    value = float(match[1]) * units[match[2]]
    if not 0 < value < math.inf:
        raise exception.InvalidQuantity(
            f'{shown} is not a {what}: it must be finite and above 0'
        )
    return value


_EXAMPLES = {
    'duration': '10ms, 200us or 1.5s',
    'rate': '500/s, 30/min or 257/100ms',
    'size': '1KiB, 2048B or 8kbit',
    'link rate': '64Mbit or 1Gbit/s',
    'percentile': '99 or 99.9',
}


def duration_s(text: str) -> float:
    """Read a time, such as ``10ms``: ns, us, ms, s, min.

    :returns: seconds
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    return _parse('duration', text, _DURATIONS)


def delay_s(text: str) -> float:
    """Read a time that may be zero, such as ``0ms``.

    :returns: seconds
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    return _parse('duration', text, _DURATIONS, zero=True)


def rate_per_s(text: str) -> float:
    """Read a rate, such as ``500/s`` or ``257/100ms``: /ns to /h.

    :returns: 1/s
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    number, _, time = text.partition('/')
    if time[:1].isdecimal():
        return _parse('rate', f'{number}/s', _RATES) / duration_s(time)
    return _parse('rate', text, _RATES)


def size_bit(text: str) -> float:
    """Read a size, such as ``1KiB``: bit, b, B, with k, M, G, Ki, Mi, Gi.

    :returns: bits
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    return _parse('size', text, _SIZES)


def link_bit_per_s(text: str) -> float:
    """Read the rate of a link, such as ``64Mbit`` or ``8MB/s``.

    :returns: bits per second
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    return _parse('link rate', text, _LINKS)


def percentile(text: str) -> float:
    """Read a percentile, such as ``99`` or ``99.9%``.

    :returns: the fraction, such as 0.99
    :raises InvalidQuantity: if it is invalid; the message is one line
    """
    value = _parse('percentile', text, _PERCENTS)
    if value < 1:
        raise exception.InvalidQuantity(
            f'the percentile {text} is below 1: write it in percent, as in '
            f'{_EXAMPLES["percentile"]}'
        )
    if value >= 100:
        raise exception.InvalidQuantity(
            f'the percentile {text} is not below 100: no deadline of the '
            'model is always met'
        )
    # In decimals: 99.9 is the nearest double to 0.999, and no other one.
    return float(decimal.Decimal(text.rstrip('% ')).scaleb(-2))


def tell_percentile(fraction: float) -> str:
    """Write a percentile for people, with all its digits.

    :returns: such as ``99.9``
    """
    percent = decimal.Decimal(repr(fraction)).scaleb(2)
    return f'{percent.normalize():f}'


def tell_rate(per_s: float) -> str:
    """Write a rate for people, rounded down.

    :returns: four digits, such as ``457.5/s``
    """
    return f'{round_down(per_s):.6g}/s'


def tell_duration(seconds: float) -> str:
    """Write a time for people.

    :returns: four digits and a unit, such as ``9.916 ms``
    """
    for unit, least in (('s', 1.0), ('ms', 1e-3), ('us', 1e-6)):
        if seconds >= least:
            return f'{seconds / least:.4g} {unit}'
    return f'{seconds * 1e9:.4g} ns'


def round_up(value: float) -> float:
    """Round to four significant digits, never down.

    :returns: a float that prints with four digits
    """
    return _rounded(value, decimal.ROUND_CEILING)


def round_down(value: float) -> float:
    """Round to four significant digits, never up.

    :returns: a float that prints with four digits
    """
    return _rounded(value, decimal.ROUND_FLOOR)


def _rounded(value: float, how: str) -> float:
    # A repr, so that 0.1 is a tenth and stays one.
    number = decimal.Decimal(repr(value))
    return float(decimal.Context(prec=4, rounding=how).plus(number))
