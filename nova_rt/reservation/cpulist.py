# SPDX-License-Identifier: Apache-2.0
"""CPU numbers as text.

The kernel's list format, ``0-3,7``, is for people and for the kernel. The
packed format, ``64~CF4y...``, is for many scattered CPUs in a short text.
"""

import base64
import bisect
from collections.abc import Iterable
import math
import re

_PART = '[0-9]{1,5}(?:-[0-9]{1,5})?'
_LIST = re.compile(f'{_PART}(?:,{_PART})*')

_PACKED = re.compile('([0-9]{1,3})~([A-Za-z0-9_-]*)')

#: The largest number that both formats hold.
MAX_CPU = 99_999

#: The most CPUs in the packed format: unpacking more would take seconds.
MAX_PACKED = 999


def render(cpus: Iterable[int]) -> str:
    """Render CPU numbers as a list of ranges; '' for none."""
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
    """Parse a list of ranges.

    :returns: CPU numbers, ascending; none from ''
    :raises ValueError: if the text has another format
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


def parse_nova(text: str) -> tuple[int, ...]:
    """Parse a list in the format of Nova's options, such as ``2-7, ^4``.

    Like nova/virt/hardware.py, parse_cpu_spec(), for programs without Nova.

    :returns: CPU numbers, ascending; none from ''
    :raises ValueError: if the text has another format
    """
    cpus: set[int] = set()
    excluded: set[int] = set()
    for part in map(str.strip, text.split(',')):
        bounds = part.removeprefix('^').split('-', 1)
        found = parse('-'.join(bound.strip() for bound in bounds))
        (excluded if part.startswith('^') else cpus).update(found)
    return tuple(sorted(cpus - excluded))


def pack(cpus: Iterable[int]) -> str:
    """Render CPU numbers in the packed format.

    That is ``<count>~<rank>``, the rank in base64url.

    The rank is the set's place among all sets of as many numbers, ordered by
    the largest number, then the next: the sum of C(n_i, i) over the ascending
    numbers n_1, n_2, ... (the combinatorial number system). No encoding that
    takes all sets alike is shorter: 64 CPUs below 1024 take at most 58
    characters.

    :returns: the text
    :raises ValueError: if there are more than MAX_PACKED
    """
    members = sorted(set(cpus))
    if len(members) > MAX_PACKED:
        raise ValueError(f'{len(members)} CPUs are too many to be packed')
    rank = sum(math.comb(cpu, i) for i, cpu in enumerate(members, 1))
    digits = rank.to_bytes((rank.bit_length() + 7) // 8, 'big')
    text = base64.urlsafe_b64encode(digits).rstrip(b'=').decode('ascii')
    return f'{len(members)}~{text}'


def unpack(text: str) -> tuple[int, ...]:
    """Parse the packed format.

    :returns: CPU numbers, ascending
    :raises ValueError: if it is not a possible result of :func:`pack`
    """
    match = _PACKED.fullmatch(text)
    if match is None:
        raise ValueError(f'not a packed CPU list: {text!r}')
    padding = '=' * (-len(match[2]) % 4)
    digits = base64.urlsafe_b64decode(match[2] + padding)
    rank = int.from_bytes(digits, 'big')
    members = []
    above = MAX_CPU + 1
    for i in range(int(match[1]), 0, -1):
        # The largest number such that C(number, i) is in the rank.
        above = (
            bisect.bisect_right(
                range(above), rank, key=lambda cpu: math.comb(cpu, i)
            )
            - 1
        )
        members.append(above)
        rank -= math.comb(above, i)
    cpus = tuple(reversed(members))
    if pack(cpus) != text:
        raise ValueError(f'not a packed CPU list: {text!r}')
    return cpus
