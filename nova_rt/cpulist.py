# SPDX-License-Identifier: Apache-2.0
"""The kernel's list format for CPU numbers: ``0-3,7``."""

from collections.abc import Iterable
import re

_PART = '[0-9]{1,5}(?:-[0-9]{1,5})?'
_LIST = re.compile(f'{_PART}(?:,{_PART})*')


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
    if not text:
        return ()
    if _LIST.fullmatch(text) is None:
        raise ValueError(f'not a CPU list: {text!r}')
    cpus: set[int] = set()
    for part in text.split(','):
        low, dash, high = part.partition('-')
        if not dash:
            cpus.add(int(low))
            continue
        if int(high) < int(low):
            raise ValueError(f'not an ascending range: {part!r}')
        cpus.update(range(int(low), int(high) + 1))
    return tuple(sorted(cpus))
