# SPDX-License-Identifier: Apache-2.0
"""The types of extra specs' values: words, numbers, reservations."""

import dataclasses
import enum
import re
from typing import Any

from nova_rt import exception
from nova_rt.reservation.reservation import Reservation

# Each type has:
# - error: raised for a hint of another type than one text
# - form: the form of a value, for messages and the manual
# - parse(): reads the value of an extra spec, which it names in its error


@dataclasses.dataclass(frozen=True)
class Words:
    """One of the words of an enumeration."""

    words: type[enum.StrEnum]
    error = exception.InvalidRequest

    @property
    def form(self) -> str:
        """The words, in the order of the enumeration."""
        return f'one of {", ".join(self.words)}'

    def parse(self, key: str, text: str) -> Any:
        """Read a word.

        :returns: the member of the enumeration
        :raises InvalidRequest: if it is none of them
        """
        try:
            return self.words(text)
        except ValueError as err:
            raise _not_a_value(key, self.form, text) from err


@dataclasses.dataclass(frozen=True)
class Number:
    """A whole number, ``minimum`` to ``maximum``."""

    minimum: int
    maximum: int
    error = exception.InvalidRequest

    @property
    def form(self) -> str:
        """The bounds."""
        return f'a whole number from {self.minimum} to {self.maximum}'

    def parse(self, key: str, text: str) -> int:
        """Read a number.

        :returns: the number
        :raises InvalidRequest: if it is none, or out of the bounds
        """
        digits = len(str(self.maximum))
        # ASCII digits only: int() takes those of other scripts as well.
        if re.fullmatch(f'[0-9]{{1,{digits}}}', text):
            number = int(text)
            if self.minimum <= number <= self.maximum:
                return number
        raise _not_a_value(key, self.form, text)


class ReservationValues:
    """A reservation, without the operator's bounds (see ``bounds``)."""

    error = exception.InvalidReservation
    form = '<runtime_us>/<period_us>, for example 1400/2000'

    def parse(self, key: str, text: str) -> Reservation:
        """Read a reservation.

        :returns: the reservation
        :raises InvalidReservation: if it is none
        """
        return Reservation.parse(text)


#: The permitted values of an extra spec.
Values = Words | Number | ReservationValues


def _not_a_value(key: str, form: str, text: str) -> exception.InvalidRequest:
    return exception.InvalidRequest(f'{key} must be {form}, not {text[:40]!r}')
