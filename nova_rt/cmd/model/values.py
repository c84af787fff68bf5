# SPDX-License-Identifier: Apache-2.0
"""Reads the values of a plan, and tells the place of one that is wrong."""

from collections.abc import Callable
import decimal
import os
import re
import shlex
from typing import Any

from nova_rt import exception
from nova_rt.reservation import cpulist
from nova_rt.reservation.reservation import PPM

#: CPUs of a host.
MAX_CPUS = 1_024
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,62}', re.ASCII)


class Fields:
    """A mapping that is read key by key.

    :param place: where it is, for messages
    :raises InvalidQuantity: if it is none, or has other keys
    """

    def __init__(self, place: str, value: Any, known: set[str]) -> None:
        if not isinstance(value, dict):
            raise exception.InvalidQuantity(
                f'{place} is {show(value)}: it must be a mapping with '
                f'{", ".join(sorted(known))}'
            )
        for key in value:
            if key not in known:
                raise exception.InvalidQuantity(
                    f'{place} has {show(key)}: it may have '
                    f'{", ".join(sorted(known))}'
                )
        self.place, self._value = place, value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def take(
        self, key: str, read: Callable[[Any], Any], default: Any = None
    ) -> Any:
        """Read a value.

        :param default: the value if it is not there; None if it must be
        :returns: the value
        :raises InvalidQuantity: if it is none; says the place
        """
        if key not in self._value:
            if default is None:
                raise exception.InvalidQuantity(f'{self.place} has no {key}')
            return default
        try:
            return read(self._value[key])
        except (exception.Unanswerable, exception.InvalidRequest) as err:
            raise exception.InvalidQuantity(
                f'{self.place}, {key}: {err}'
            ) from err


def show(value: Any) -> str:
    """Show a value in a message, however large it is."""
    if value in (None, [], {}):
        return 'empty'
    if isinstance(value, dict | list):
        return 'a mapping' if isinstance(value, dict) else 'a list'
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + '...'


def check_path(path: str) -> str:
    """Refuse names that no file can have.

    :returns: the path
    :raises InvalidQuantity: for texts that a system call does not take
    """
    try:
        os.fsencode(path)
    except UnicodeError:
        path = '\0'
    if '\0' in path:
        raise exception.InvalidQuantity('a file cannot be called that')
    return path


def show_path(path: str) -> str:
    """Quote the name of a file as a shell does, shortened.

    :returns: a word
    """
    return shlex.quote(path if len(path) <= 200 else path[:200] + '...')


# Readers of values: what is none raises InvalidQuantity or Unanswerable


def read_list(value: Any) -> list[Any]:
    """Read a list that is not empty."""
    if not isinstance(value, list) or not value:
        raise exception.InvalidQuantity(
            f'it is {show(value)}: it must be a list that is not empty'
        )
    return value


def text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A quantity: a text, or a plain number where the unit is optional."""

    def checked(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise exception.InvalidQuantity(
                f'it is {show(value)}: it must be a quantity'
            )
        return read(str(value))

    return checked


def one_of(*known: str) -> Callable[[Any], str]:
    """One of several words."""

    def checked(value: Any) -> str:
        if value not in known:
            raise exception.InvalidQuantity(
                f'it is {show(value)}: it must be one of {", ".join(known)}'
            )
        return str(value)

    return checked


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise exception.InvalidQuantity(
            f'it is {show(value)}: it must be true or false'
        )
    return value


def whole(most: int) -> Callable[[Any], int]:
    """A whole number, from 1."""

    def checked(value: Any) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise exception.InvalidQuantity(
                f'it is {show(value)}: it must be a whole number from 1 to '
                f'{most}'
            )
        return value

    return checked


def read_name(value: Any) -> str:
    """Read the name of a host or a service."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise exception.InvalidQuantity(
            f'it is {show(value)}: a name has letters, digits, dots, dashes '
            'and underscores, at most 63 of them'
        )
    return value


def read_cpus(value: Any) -> tuple[int, ...]:
    """Numbers of CPUs, from how many there are or a list of ranges."""
    if type(value) is int:
        return tuple(range(whole(MAX_CPUS)(value)))
    try:
        found = cpulist.parse(value if isinstance(value, str) else '')
    except ValueError as err:
        raise exception.InvalidQuantity(f'it is {show(value)}: {err}') from err
    if not 1 <= len(found) <= MAX_CPUS:
        raise exception.InvalidQuantity(
            f'it is {show(value)}: it must be a number of CPUs, or a list '
            f'such as 2-7,10, of at most {MAX_CPUS}'
        )
    return found


def capacity_ppm(text: str) -> int:
    """Read the capacity of a CPU, in percent, rounded down to ppm."""
    number = text.removesuffix('%').strip()
    if re.fullmatch(r'[0-9]{1,3}(\.[0-9]{1,9})?', number, re.ASCII):
        found = int(decimal.Decimal(number) * (PPM // 100))
        if 0 < found <= PPM:
            return found
    raise exception.InvalidQuantity(
        f'it is {show(text)}: it must be a part of a CPU in percent, above '
        '0 and at most 100, such as 95'
    )
