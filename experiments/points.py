# SPDX-License-Identifier: Apache-2.0
"""The numbers of measured points as a CSV file, without their samples.

A row has the name of its figure, all parameters of the point, and all numbers
of its :class:`.Result`, to full precision: bounds are judged from the file as
from the samples. Only the curves of whole distributions need the latter.
"""

from collections.abc import Iterator, Mapping, Sequence
import csv
import dataclasses
import pathlib
from typing import Any

import numpy

from experiments.description import Point, Refused
from experiments.evaluate import Numbers, Result, Way

_FIGURE = 'figure'
#: Fields of a result that have fields of their own.
_PARTS = {
    'point': Point,
    'measured': Numbers,
    'theory': Numbers,
    'fluid': Numbers,
    'scheduler': Numbers,
    'way': Way,
}
_PHASES = ('phases_s.least', 'phases_s.most')
_NOT_KEPT = 'sorted_ns'


def write(path: pathlib.Path, results: Mapping[str, Sequence[Result]]) -> None:
    """Write the results of figures.

    :param results: by the names of the figures
    """
    with path.open('w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow([_FIGURE, *(name for name, _ in _columns())])
        for figure, some in results.items():
            for one in some:
                writer.writerow([figure, *_values(one)])


def read(path: pathlib.Path) -> dict[str, list[Result]]:
    """Read the results of figures.

    :returns: results without samples, by the names of the figures
    :raises Refused: if it is not a file of these numbers
    """
    found: dict[str, list[Result]] = {}
    try:
        with path.open(newline='') as file:
            for row in csv.DictReader(file, strict=True):
                found.setdefault(row[_FIGURE], []).append(_parse(row))
    except (OSError, ValueError, TypeError, LookupError, csv.Error) as err:
        raise Refused(f'{path}: {type(err).__name__}: {err}') from err
    if not found:
        raise Refused(f'{path} has no points')
    return found


def _columns() -> Iterator[tuple[str, Any]]:
    """Names and types of the columns of a result."""
    for field in dataclasses.fields(Result):
        if field.name in _PARTS:
            for part in dataclasses.fields(_PARTS[field.name]):
                yield f'{field.name}.{part.name}', part.type
        elif field.name == 'phases_s':
            yield from ((name, float) for name in _PHASES)
        elif field.name != _NOT_KEPT:
            yield field.name, field.type if field.type is int else float


def _values(one: Result) -> Iterator[Any]:
    for name, _ in _columns():
        if name in _PHASES:
            yield one.phases_s[_PHASES.index(name)]
            continue
        value: Any = one
        for part in name.split('.'):
            value = getattr(value, part)
        yield '' if value is None else value


def _parse(row: Mapping[str, str]) -> Result:
    values: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {name: {} for name in _PARTS}
    for name, kind in _columns():
        value = kind(row[name]) if row[name] or kind is str else None
        part, _, inner = name.partition('.')
        (parts[part] if part in parts else values)[inner or name] = value
    phases = tuple(values.pop(name.partition('.')[2]) for name in _PHASES)
    return Result(
        **{name: kind(**parts[name]) for name, kind in _PARTS.items()},
        **values,
        phases_s=phases,
        sorted_ns=numpy.array([], dtype=numpy.int64),
    )
