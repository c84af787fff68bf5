# SPDX-License-Identifier: Apache-2.0
"""Service times from a CSV file, whoever wrote it."""

import argparse
from collections.abc import Iterator
import csv
import re
from typing import TextIO

from nova_rt import exception
from nova_rt.cmd.model import values
from nova_rt.model import inputs, units

#: No more times are read: they would say nothing more.
MAX_TIMES = 1_000_000
_MAX_LINE = 4_096
#: Units that times can have, in seconds.
UNITS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_NUMBER = re.compile(
    r'[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?', re.ASCII
)
# What programs print for what is none.
_NO_NUMBERS = {'nan', 'inf', 'infinity'}


def add_options(parser: argparse._ActionsContainer) -> None:
    """Offer ``--csv-column`` and ``--csv-unit``."""
    parser.add_argument(
        '--csv-column', metavar='NAME',
        help='Of a CSV file, name of the column or its number from 1 on. '
        'Needed if there are several.',
    )  # fmt: skip
    parser.add_argument(
        '--csv-unit', choices=tuple(UNITS),
        help='Of numbers without one in a CSV file.',
    )  # fmt: skip


def read(
    path: str, column: str | None, unit: str | None, zero: bool = False
) -> list[float]:
    """Read the times in one column.

    :param path: a CSV file, with or without a line of names
    :param column: name or number; None if there is only one
    :param unit: of plain numbers
    :param zero: a time may be zero, as an instant may
    :returns: seconds, in the order of the file
    :raises InvalidQuantity: if it cannot be read; says which line
    """
    try:
        # Also with the mark that some programs write at the start.
        with open(
            values.check_path(path), encoding='utf-8-sig', newline=''
        ) as file:
            return _read(file, column, unit, zero)
    except OSError as err:
        raise exception.InvalidQuantity(
            f'{values.show_path(path)} cannot be read: {err.strerror}'
        ) from err
    except UnicodeError as err:
        raise exception.InvalidQuantity(f'{path} is not text') from err
    except csv.Error as err:
        raise exception.InvalidQuantity(f'{path} is not CSV: {err}') from err


def _lines(file: TextIO) -> Iterator[str]:
    """Lines, none of which fills the memory."""
    number = 0
    while line := file.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise exception.InvalidQuantity(
                f'line {number} is longer than {_MAX_LINE} characters'
            )
        yield line


def _read(
    file: TextIO, column: str | None, unit: str | None, zero: bool
) -> list[float]:
    rows = csv.reader(_lines(file), strict=True)
    times_s: list[float] = []
    index = None
    for row in rows:
        if not any(map(str.strip, row)):
            continue
        if index is None:
            named = not any(map(_is_time, row))
            index = _choose(row, column, named)
            if named:
                continue
        if index >= len(row):
            raise exception.InvalidQuantity(
                f'line {rows.line_num} has only {len(row)} columns'
            )
        if len(times_s) == MAX_TIMES:
            raise exception.InvalidQuantity(
                f'there are more than {MAX_TIMES} times: take a part of them'
            )
        text = row[index].strip()
        times_s.append(_time_s(rows.line_num, text, unit, zero))
    if not times_s:
        raise exception.InvalidQuantity('there are no service times')
    return times_s


def _is_time(text: str) -> bool:
    """Whether it is a value, if maybe a bad one, and no name."""
    text = text.strip()
    if text.lower().lstrip('+-') in _NO_NUMBERS:
        return True
    return bool(re.match(r'[+-]?\.?[0-9]', text, re.ASCII))


def _choose(row: list[str], column: str | None, named: bool) -> int:
    """Index of the column."""
    names = [name.strip() for name in row]
    if column is None:
        if len(row) == 1:
            return 0
        raise exception.InvalidQuantity(
            f'there are {len(row)} columns: choose one with --csv-column'
            + (f': {", ".join(names)[:200]}' if named else '')
        )
    if named and names.count(column) == 1:
        return names.index(column)
    if re.fullmatch('[0-9]{1,4}', column, re.ASCII):
        if 1 <= int(column) <= len(row):
            return int(column) - 1
    raise exception.InvalidQuantity(
        f'there is no column {column[:40]!r}, or more than one of that name'
    )


def _time_s(line: int, text: str, unit: str | None, zero: bool) -> float:
    check = inputs.not_negative if zero else inputs.positive
    parse = units.delay_s if zero else units.duration_s
    shown = repr(text if len(text) <= 40 else text[:40] + '...')
    if not _NUMBER.fullmatch(text):
        try:
            return check('it', parse(text))
        except exception.InvalidQuantity as err:
            raise exception.InvalidQuantity(f'line {line}: {err}') from err
    if unit is None:
        raise exception.InvalidQuantity(
            f'line {line}: {shown} has no unit: give one with --csv-unit'
        )
    time_s = float(text) * UNITS[unit]
    try:
        return check('the time in seconds', time_s)
    except exception.InvalidQuantity as err:
        raise exception.InvalidQuantity(
            f'line {line}: {shown} is not a service time: {err}'
        ) from err
