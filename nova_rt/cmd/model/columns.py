# SPDX-License-Identifier: Apache-2.0
"""Values for people and for programs.

Tables have units and whole sentences; JSON, YAML, CSV and bare values have
numbers: seconds, requests per second, fractions.
"""

import textwrap
from typing import Any

from cliff import columns

from nova_rt.cmd.cli import terminal
from nova_rt.model import units

# A table with it is as wide as a terminal.
_WIDTH = 58


class Duration(columns.FormattableColumn[float]):
    """A time: seconds for programs."""

    def human_readable(self) -> str:
        return units.tell_duration(self._value) if self._value else '0 s'


class Deadline(columns.FormattableColumn[float]):
    """A time that is promised: rounded up for people."""

    def human_readable(self) -> str:
        return units.tell_duration(units.round_up(self._value))


class Rate(columns.FormattableColumn[float]):
    """Requests per second; rounded down for people."""

    def human_readable(self) -> str:
        return units.tell_rate(self._value)


class Share(columns.FormattableColumn[float]):
    """A fraction."""

    def human_readable(self) -> str:
        return f'{self._value:.3f}'


class Percent(columns.FormattableColumn[float]):
    """A fraction that people read in percent; never rounded up."""

    def human_readable(self) -> str:
        late = 100 * (1 - self._value)
        return f'{100 - units.round_up(late):.8g} %' if late > 0 else '100 %'


class Text(columns.FormattableColumn[str]):
    """A sentence or more."""

    def human_readable(self) -> str:
        return textwrap.fill(terminal.escape(self._value), _WIDTH)


class Told(columns.FormattableColumn[Any]):
    """Anything that people read in other words.

    :param value: for programs
    :param lines: for people
    """

    def __init__(self, value: Any, *lines: str) -> None:
        super().__init__(value)
        self._lines = lines

    def human_readable(self) -> str:
        return '\n'.join(map(terminal.escape, self._lines))


class Shell(columns.FormattableColumn[str]):
    """A command with its options, one on each line for people."""

    def human_readable(self) -> str:
        return terminal.escape(self._value).replace(
            ' --property ', ' \\\n    --property '
        )
