# SPDX-License-Identifier: Apache-2.0
"""The owners that a container's files may have, given where it has run.

A root disk has the IDs that the container's users have inside: the mount maps
them, the disk is never changed (:mod:`nova_rt.host.idmaps`). It is therefore
right on any host that maps at least the IDs that the container had so far,
to whatever IDs of that host. Where one is not mapped, its files belong to
nobody, and no user of the container can take them back.

Hosts map the IDs of a range (:mod:`nova_rt.id_pool`). A container that ran
without a user namespace, or under an earlier release that mapped more, may
have files of others.
"""

from collections.abc import Iterable
import dataclasses
from typing import Self

from nova_rt.id_pool import SIZE

#: Key in ``instance.system_metadata``.
KEY = 'nova_rt_owners'

#: One past the largest ID that there is.
_IDS = (1 << 32) - 1

#: (first ID, one past the last), ascending, with gaps between them.
_Ranges = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Owners:
    """IDs inside a container.

    :ivar users: ranges: (first, one past the last)
    :ivar groups: the same of groups
    """

    users: _Ranges
    groups: _Ranges

    @classmethod
    def of(cls, mapped: bool) -> Self:
        """List the IDs that a container has on a host.

        :param mapped: whether it has a range of the host's; if not, every ID
            is what it is
        :returns: users and groups alike
        """
        ids = ((0, SIZE if mapped else _IDS),)
        return cls(ids, ids)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what :meth:`render` wrote.

        :returns: the same IDs
        :raises ValueError: if it is anything else
        """
        users, groups = text.split(';')
        return cls(_parse(users), _parse(groups))

    def render(self) -> str:
        """Write them as text, such as ``0-65535;0-65535``.

        :returns: ranges of users, then of groups
        """
        return ';'.join(
            ','.join(f'{first}-{past - 1}' for first, past in ranges)
            for ranges in (self.users, self.groups)
        )

    def joined(self, other: Self) -> Self:
        """Add IDs.

        :returns: those of either
        """
        return type(self)(
            _merge(self.users + other.users),
            _merge(self.groups + other.groups),
        )

    def includes(self, other: Self) -> bool:
        """Look whether there are no others.

        :returns: whether all of the other are here
        """
        return self.joined(other) == self


def _merge(ranges: Iterable[tuple[int, int]]) -> _Ranges:
    merged: list[tuple[int, int]] = []
    for first, past in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(past, merged[-1][1]))
        else:
            merged.append((first, past))
    return tuple(merged)


def _parse(text: str) -> _Ranges:
    ranges = []
    for part in text.split(','):
        first, last = map(int, part.split('-'))
        ranges.append((first, last + 1))
    return _merge(ranges)
