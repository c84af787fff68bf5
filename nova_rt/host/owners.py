# SPDX-License-Identifier: Apache-2.0
"""The possible owners of a container's files, given its hosts so far.

A root disk has the IDs of the container's users inside: the mount maps them,
the disk is never changed (:mod:`nova_rt.host.idmaps`). It is therefore right
on any host that maps at least the IDs that the container had so far, to any
IDs of that host. The files of an unmapped ID belong to nobody, and no user of
the container can take them back.

Hosts map the IDs of a range (:mod:`nova_rt.id_pool`). A container that ran
without a user namespace, or under an earlier release that mapped more, may
have files of other IDs.
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
        """List the IDs of a container on a host.

        :param mapped: whether it has a range of the host's IDs; if not, it
            has every ID, unmapped
        :returns: the same IDs for users and groups
        """
        ids = ((0, SIZE if mapped else _IDS),)
        return cls(ids, ids)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of :meth:`render`.

        :returns: the same IDs
        :raises ValueError: if it is anything else
        """
        users, groups = text.split(';')
        return cls(_parse(users), _parse(groups))

    def render(self) -> str:
        """Render the IDs as text, such as ``0-65535;0-65535``.

        :returns: ranges of users, then of groups
        """
        return ';'.join(
            ','.join(f'{first}-{past - 1}' for first, past in ranges)
            for ranges in (self.users, self.groups)
        )

    def joined(self, other: Self) -> Self:
        """Compute the union with other IDs.

        :returns: those of either
        """
        return type(self)(
            _merge(self.users + other.users),
            _merge(self.groups + other.groups),
        )

    def includes(self, other: Self) -> bool:
        """Tell whether other IDs are a subset of these.

        :returns: True if all of them are here
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
