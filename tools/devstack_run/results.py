# SPDX-License-Identifier: Apache-2.0
"""Results of the steps: kept as lines of JSON, and shown as a table."""

from collections.abc import Iterable
import dataclasses
import json
import pathlib
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class Result:
    """One step that has run.

    :ivar begun: date and time in UTC
    :ivar note: why it failed, or a remark
    :ivar facts: versions, counts, values of the kernel
    """

    step: str
    begun: str
    seconds: float
    exit: int
    note: str = ''
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read a line that :meth:`to_json` wrote."""
        return cls(**json.loads(line))

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def append(path: pathlib.Path, result: Result) -> None:
    """Add a result to those that are kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('a') as file:
        file.write(result.to_json() + '\n')


def read(path: pathlib.Path) -> list[Result]:
    """Return all results, oldest first; none if nothing has run."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Result.from_json(line) for line in lines]


def last_run(results: list[Result]) -> list[Result]:
    """Return the results from the last ``prepare`` on."""
    begins = [i for i, found in enumerate(results) if found.step == 'prepare']
    return results[begins[-1] :] if begins else results


def table(results: Iterable[Result]) -> str:
    """Return a table of results, and their facts in words."""
    lines = [f'{"step":<11}{"begun (UTC)":<21}{"time":>8}{"exit":>6}']
    facts = []
    for found in results:
        lines.append(
            f'{found.step:<11}{found.begun:<21}{found.seconds:>6.0f} s'
            f'{found.exit:>6}  {found.note}'.rstrip()
        )
        if found.facts:
            facts.append(f'{found.step}:')
            facts += [f'  {key}: {said(v)}' for key, v in found.facts.items()]
    return '\n'.join([*lines, '', *facts])


def said(value: object) -> str:
    """Return a fact in words: lists and tables as JSON, the rest as it is."""
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
