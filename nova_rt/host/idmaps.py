# SPDX-License-Identifier: Apache-2.0
"""User namespaces: who the users of a container are on the host.

Nova reads ``[libvirt] uid_maps`` and ``gid_maps``, drops what it cannot read,
and then fails to change the owners on the root file system (Nova 34: its
privileged helper cannot be sent the objects). Here they are read strictly,
and an id-mapped mount takes the place of the changed owners.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import errno
import grp
import os
import pwd
from typing import Any, Self

from nova_rt import exception
from nova_rt.host.files import Files

#: Nova's bound (nova/virt/libvirt/driver.py, _create_idmaps()).
_MOST = 5

_Map = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class IDMaps:
    """Maps of user and group IDs.

    :ivar uids: (first ID in the container, first ID on the host, count)
    :ivar gids: the same for groups
    """

    uids: tuple[_Map, ...]
    gids: tuple[_Map, ...]

    @classmethod
    def from_options(cls, group: Any) -> Self | None:
        """Read the options of group ``libvirt``.

        :param group: anything with the options as attributes
        :returns: None if there are no maps
        :raises HostNotPrepared: if they are not maps that keep the root of a
            container from being somebody on the host
        """
        if not group.uid_maps and not group.gid_maps:
            return None
        users = {user.pw_uid: user.pw_name for user in pwd.getpwall()}
        groups = {each.gr_gid: each.gr_name for each in grp.getgrall()}
        return cls(
            parse('uid_maps', group.uid_maps, users),
            parse('gid_maps', group.gid_maps, groups),
        )

    def put_on(self, path: str, files: Files | None = None) -> None:
        """Map the owners of a root file system that is mounted.

        :param path: where it is mounted
        :raises HostNotPrepared: if it cannot be done
        """
        try:
            # The directory of the servers may be a symbolic link.
            (files or Files()).map_owners(
                os.path.realpath(path), self.uids, self.gids
            )
        except OSError as err:
            text = f'cannot map the owners of {path}: {err.strerror}'
            if err.errno in (errno.EINVAL, errno.ENOSYS):
                text += (
                    ' (an id-mapped mount needs Linux 5.12, and ext4, xfs or '
                    'btrfs on the root disk)'
                )
            raise exception.HostNotPrepared(text) from err


def parse(
    option: str, texts: Sequence[str], accounts: Mapping[int, str]
) -> tuple[_Map, ...]:
    """Read the value of one option.

    :param option: its name, for the messages
    :param texts: maps as ``0:100000:65536``
    :param accounts: IDs of the host's own users or groups -> names
    :returns: (first ID in the container, first ID on the host, count)
    :raises HostNotPrepared: if they are no maps, or let a container's user be
        one of these accounts
    """

    def refuse(reason: str) -> exception.HostNotPrepared:
        return exception.HostNotPrepared(
            f'[libvirt] {option} = {",".join(texts)}: {reason}'
        )

    maps = []
    for text in texts:
        parts = text.strip().split(':')
        if len(parts) != 3 or not all(
            part.isascii() and part.isdecimal() for part in parts
        ):
            raise refuse('a map is <ID in the container>:<ID here>:<count>')
        inside, outside, count = map(int, parts)
        maps.append((inside, outside, count))
    if not 1 <= len(maps) <= _MOST:
        raise refuse(f'1 to {_MOST} maps are needed')
    if not _covers(((inside, count) for inside, _, count in maps), 0):
        raise refuse('0, the root of the container, is not mapped')
    ranges = [(outside, count) for _, outside, count in maps]
    for account in sorted({0: 'root', **accounts}):
        if _covers(ranges, account):
            name = accounts.get(account, 'root')
            raise refuse(
                f'a user of a container would be {name} ({account}) here; '
                'use IDs that no account of this host has'
            )
    return tuple(maps)


def _covers(ranges: Iterable[tuple[int, int]], number: int) -> bool:
    return any(first <= number < first + count for first, count in ranges)
