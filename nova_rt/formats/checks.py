# SPDX-License-Identifier: Apache-2.0
"""Checks values that came over the message bus for their types and sizes."""

from collections.abc import Sized
import re
from typing import Any

from nova_rt import exception

#: The name of a host.
HOST = re.compile('[!-~]{1,255}')

_MAX = 2**62


def kind(name: str, value: Any, wanted: type[Sized], most: int) -> Any:
    """Check that a value is a list or a dict, and not too long.

    :param most: how many entries it may have
    :returns: the value
    :raises InvalidReport: if it is anything else
    """
    if not isinstance(value, wanted):
        raise exception.InvalidReport(f'{name} is no {wanted.__name__}')
    if len(value) > most:
        raise exception.InvalidReport(f'{name} has more than {most} entries')
    return value


def integer(name: str, value: Any, low: int = 0, high: int = _MAX) -> int:
    """Check a whole number.

    :returns: the number
    :raises InvalidReport: if it is none from ``low`` to ``high``
    """
    # True is an int, too.
    if type(value) is not int:
        raise exception.InvalidReport(f'{name} is no whole number')
    if not low <= value <= high:
        raise exception.InvalidReport(f'{name} is not from {low} to {high}')
    return value


def text(name: str, value: Any, form: re.Pattern[str]) -> str:
    """Check a text.

    :returns: the text
    :raises InvalidReport: if it is none of this form
    """
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise exception.InvalidReport(
            f'{name} is not of the form {form.pattern}'
        )
    return value
