# SPDX-License-Identifier: Apache-2.0
"""The user and group IDs that a host has for containers.

The pool is cut into ranges of 65,536 IDs. Each container has one of its own,
on which its IDs 0 to 65535 are mapped, users and groups alike. So the root of
one container is no user of any other.
"""

import dataclasses
import re
from typing import Self

from nova_rt import exception

#: IDs of a range: what programs and images expect.
SIZE = 1 << 16

#: One past the largest ID that there is: the largest 32-bit number is none.
_END = (1 << 32) - 1

_NUMBERS = re.compile('([0-9]{1,10}):([0-9]{1,10})')


@dataclasses.dataclass(frozen=True)
class IDPool:
    """A pool, a whole number of ranges.

    :ivar first: its first ID
    :ivar count: number of IDs
    """

    first: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the option ``[nova_rt] id_pool``.

        :param text: ``<first ID>:<number of IDs>``
        :returns: the pool
        :raises HostNotPrepared: if it is none, with the rule
        """
        found = _NUMBERS.fullmatch(text)
        if found is None:
            raise refuse(text, 'a pool is <first ID>:<number of IDs>')
        first, count = map(int, found.groups())
        # Below are the host's own users, "nobody" (65534) among them.
        if first % SIZE or first < SIZE:
            nearest = max(SIZE, -(-first // SIZE) * SIZE)
            raise refuse(
                text,
                f'the first ID must be a multiple of {SIZE} and not 0, for '
                f'example {nearest}',
            )
        if count % SIZE or not count:
            nearest = max(SIZE, count // SIZE * SIZE)
            raise refuse(
                text,
                f'each server takes {SIZE} IDs: the number of IDs must be a '
                f'multiple of that, for example {nearest}',
            )
        if first + count > _END:
            raise refuse(
                text, f'its last ID is {first + count - 1}, and there are '
                f'none above {_END - 1}'
            )  # fmt: skip
        return cls(first, count)

    @property
    def ranges(self) -> range:
        """The first ID of each range."""
        return range(self.first, self.first + self.count, SIZE)

    def overlapped(self, first: int, count: int) -> range:
        """List the ranges that have IDs in common with others.

        :param first: of the others
        :param count: number of the others
        :returns: the first ID of each
        """
        start = max(self.first, first // SIZE * SIZE)
        end = min(self.first + self.count, first + count)
        return range(start, max(start, end), SIZE)

    def __str__(self) -> str:
        return f'{self.first}:{self.count}'


def refuse(text: str, reason: str) -> exception.HostNotPrepared:
    """Make the error for a pool that cannot be used.

    :param text: the value of the option
    :returns: an error that names the option
    """
    return exception.HostNotPrepared(f'[nova_rt] id_pool = {text}: {reason}')
