# SPDX-License-Identifier: Apache-2.0
"""User namespaces: the pool of host IDs for containers, and ID-mapped mounts.

The IDs of the pool must be free: no account of this host has one, and
/etc/subuid and /etc/subgid give none to users for containers of their own. The
mount of a root file system maps its IDs; nothing is written to the disk.
"""

from collections.abc import Iterable, Iterator
import errno
import grp
import logging
import os
import pwd

from nova_rt import exception
from nova_rt.host.files import Files
from nova_rt.id_pool import IDPool, refuse

LOG = logging.getLogger(__name__)

#: Ranges that other programs choose from at run time, without a line in a file
#: (systemd: doc/UIDS-GIDS.md): first and last ID, and the program.
_CHOSEN_BY_OTHERS = (
    (524288, 1879048191, 'systemd-nspawn'),
    (2147352576, 2147418111, "systemd's foreign disk images"),
)

#: Entries of root only reserve a range: root may map any ID anyway.
_NOBODY_ELSE = ('root', '0')


def read_pool(text: str, etc: str = '/etc') -> IDPool:
    """Read the pool of IDs for containers, and require that it is free.

    :param text: value of ``[nova_rt] id_pool``
    :param etc: directory of subuid and subgid
    :returns: the pool
    :raises HostNotPrepared: if the text is invalid, or if somebody else has
        part of the pool
    """
    pool = IDPool.parse(text)
    owner = next(_find_owners(pool, etc), None)
    if owner is not None:
        raise refuse(text, owner)
    for first, last, whose in _CHOSEN_BY_OTHERS:
        if pool.overlapped(first, last - first + 1):
            LOG.warning(
                '[nova_rt] id_pool = %s has IDs in common with %s-%s, which '
                'are for %s: do not use both on this host',
                text, first, last, whose,
            )  # fmt: skip
    return pool


def _find_owners(pool: IDPool, etc: str) -> Iterator[str]:
    """Find other owners of IDs in a pool, as sentences."""
    accounts = [
        *(('user', each.pw_name, each.pw_uid) for each in pwd.getpwall()),
        *(('group', each.gr_name, each.gr_gid) for each in grp.getgrall()),
    ]
    for kind, name, number in accounts:
        if pool.overlapped(number, 1):
            yield f'{kind} {name} of this host has ID {number}'
    for name in ('subuid', 'subgid'):
        path = os.path.join(etc, name)
        try:
            # Written by other programs: a name may be any bytes.
            with open(path, errors='backslashreplace') as lines:
                yield from _find_subordinate(pool, path, lines)
        except FileNotFoundError:
            pass
        except OSError as err:
            # It may give away any ID.
            yield f'cannot read {path}: {err.strerror}'


def _find_subordinate(
    pool: IDPool, path: str, lines: Iterable[str]
) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        whose, *numbers = line.strip().split(':')
        if whose in _NOBODY_ELSE or len(numbers) != 2:
            continue
        if not all(each.isascii() and each.isdecimal() for each in numbers):
            continue
        if pool.overlapped(*map(int, numbers)):
            yield (
                f'line {number} of {path} gives part of it to {whose} '
                f'({line.strip()})'
            )


def check_helper(
    pool: IDPool, instances_path: str, files: Files | None = None
) -> None:
    """Require that the helper for mounts reads the same configuration.

    :param instances_path: parent of the servers' directories
    :raises HostNotPrepared: if not
    """
    (files or Files()).check_mount_helper(str(pool), instances_path)


def put_on(server: str, first_id: int, files: Files | None = None) -> None:
    """Map the owners of a server's mounted root file system.

    :param server: its UUID
    :param first_id: the first ID of its range
    :raises HostNotPrepared: if it cannot be done
    """
    try:
        (files or Files()).map_owners(server, first_id)
    except OSError as err:
        text = (
            f'cannot map the owners of the root file system of {server}: '
            f'{err.strerror}'
        )
        if err.errno in (errno.EINVAL, errno.ENOSYS):
            text += (
                ' (an id-mapped mount needs Linux 5.12, and ext4, xfs or '
                'btrfs on the root disk)'
            )
        raise exception.HostNotPrepared(text) from err
