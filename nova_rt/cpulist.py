# SPDX-License-Identifier: Apache-2.0
"""The kernel's list format for CPU numbers: ``0-3,7``."""

from collections.abc import Iterable
import re

_RANGE = re.compile('([0-9]{1,5})(?:-([0-9]{1,5}))?')


def render(cpus: Iterable[int]) -> str:
    """CPU numbers as a list of ranges; '' for none."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ','.join(
        str(low) if low == high else f'{low}-{high}' for low, high in runs
    )


def parse(text: str) -> tuple[int, ...]:
    """Ascending CPU numbers from a list of ranges; none from ''.

    :raises ValueError: if it is spelt otherwise
    """
    cpus: set[int] = set()
    for part in text.split(',') if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f'not a CPU list: {text!r}')
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f'not an ascending range: {part!r}')
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))
