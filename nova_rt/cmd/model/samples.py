# SPDX-License-Identifier: Apache-2.0
"""Service times from an untrusted CSV file."""

import argparse
from collections.abc import Iterator
import csv
import itertools
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
# What counts as a value in the first line, with what programs print for none.
_VALUE = re.compile(
    r'[+-]?(nan|inf|infinity|\.?[0-9][0-9.,eE+-]*\s?([nu\u00b5\u03bcm]?s|min)?)'
    r'\W*',
    re.ASCII | re.IGNORECASE,
)


def add_options(parser: argparse._ActionsContainer, name: str = 'csv') -> None:
    """Offer ``--csv-column`` and ``--csv-unit``, or those of another file."""
    parser.add_argument(
        f'--{name}-column', metavar='NAME',
        help='Of this file, name of the column or its number from 1 on. '
        'Needed if there are several.',
    )  # fmt: skip
    parser.add_argument(
        f'--{name}-unit', choices=tuple(UNITS),
        help='Of numbers without one in this file.',
    )  # fmt: skip


def read(
    path: str, column: str | None, unit: str | None, name: str = 'csv'
) -> list[float]:
    """Read the times in one column.

    Fields are separated by commas, semicolons or tabs, as in the first line.
    A decimal comma is refused.

    :param path: a CSV file, with or without a line of names
    :param column: name or number; None if there is only one
    :param unit: of plain numbers
    :param name: of the options; an instant, of ``arrivals``, may be zero
    :returns: seconds, in the order of the file
    :raises InvalidQuantity: if it cannot be read; says which line
    """
    try:
        # Also with the mark that some programs write at the start.
        with open(
            values.check_path(path), encoding='utf-8-sig', newline=''
        ) as file:
            return _read(file, column, unit, name)
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


def _rows(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the number of its line."""
    lines = _lines(file)
    before: list[str] = []
    separator = ','
    for line in lines:
        before.append(line)
        if found := re.fullmatch('sep=(.)', line.strip()):
            separator, before[-1] = found[1], '\n'
        elif line.strip():
            known = [each for each in ';\t' if each in line]
            separator = known[0] if known else separator
            break
    rows = csv.reader(
        itertools.chain(before, lines), strict=True, delimiter=separator
    )
    for row in rows:
        if any(map(str.strip, row)):
            yield rows.line_num, row


def _read(
    file: TextIO, column: str | None, unit: str | None, name: str
) -> list[float]:
    times_s: list[float] = []
    index, width = None, 0
    # A row such as 1,5 may be one number.
    comma = False
    for line, row in _rows(file):
        if index is None:
            named = not any(map(_is_time, row))
            index, width = _choose(row, column, named, name), len(row)
            comma = not named and width == 2
            if named:
                continue
        if len(row) != width:
            raise exception.InvalidQuantity(
                f'line {line} has {len(row)} columns, and the first one has '
                f'{width}: write decimal points, not commas'
            )
        if len(times_s) == MAX_TIMES:
            raise exception.InvalidQuantity(
                f'there are more than {MAX_TIMES} times: take a part of them'
            )
        comma = comma and all(each.strip().isdecimal() for each in row)
        times_s.append(_time_s(line, row[index].strip(), unit, name))
    if not times_s:
        raise exception.InvalidQuantity('there are no service times')
    if comma:
        raise exception.InvalidQuantity(
            'all lines have two whole numbers, which may be one with a '
            'decimal comma: write a decimal point, or a line of names for '
            'two columns'
        )
    return times_s


def _is_time(text: str) -> bool:
    """Whether it is a value, if maybe a bad one, and no name."""
    return bool(_VALUE.fullmatch(text.strip()))


def _choose(
    row: list[str], column: str | None, named: bool, option: str
) -> int:
    """Index of the column."""
    names = [name.strip() for name in row]
    there = f': {", ".join(names)[:200]}' if named else ''
    if column is None:
        if len(row) == 1:
            return 0
        raise exception.InvalidQuantity(
            f'there are {len(row)} columns: choose one with --{option}-column'
            f'{there}'
        )
    if named and names.count(column) == 1:
        return names.index(column)
    if re.fullmatch('[0-9]{1,4}', column, re.ASCII):
        if 1 <= int(column) <= len(row):
            return int(column) - 1
    raise exception.InvalidQuantity(
        f'there is no column {column[:40]!r}, or more than one of that name'
        f'{there}'
    )


def _time_s(line: int, text: str, unit: str | None, name: str) -> float:
    zero = name != 'csv'
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
            f'line {line}: {shown} has no unit: give one with --{name}-unit'
        )
    time_s = float(text) * UNITS[unit]
    try:
        return check('the time in seconds', time_s)
    except exception.InvalidQuantity as err:
        raise exception.InvalidQuantity(
            f'line {line}: {shown} is not a time: {err}'
        ) from err
