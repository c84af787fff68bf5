# SPDX-License-Identifier: Apache-2.0
"""The smallest flavor that is enough, of those that there are."""

from collections.abc import Callable
import dataclasses
import json
import re
import sys
from typing import Any

from nova_rt import exception
from nova_rt.cmd.model import columns, values
from nova_rt.reservation.extra_specs import RESERVATION
from nova_rt.reservation.reservation import Reservation

_MAX_BYTES = 4 << 20
# As openstack prints properties if they are no mapping.
_PROPERTY = re.compile(rf"(?:^|, ){RESERVATION}='?([0-9]+/[0-9]+)")


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor with a reservation."""

    name: str
    vcpus: int
    reservation: Reservation


def read(path: str) -> list[Flavor]:
    """Read the output of ``openstack flavor list --long -f json``.

    :param path: a file; ``-`` for the standard input
    :returns: those with a reservation, the smallest first
    :raises InvalidQuantity: if it cannot be read, or has none
    """
    shown = 'the standard input' if path == '-' else values.show_path(path)
    try:
        if path == '-':
            text = sys.stdin.read(_MAX_BYTES + 1)
        else:
            with open(values.check_path(path), encoding='utf-8') as file:
                text = file.read(_MAX_BYTES + 1)
        listed = json.loads(text if len(text) <= _MAX_BYTES else '')
    except OSError as err:
        raise exception.InvalidQuantity(
            f'{shown} cannot be read: {err.strerror}'
        ) from err
    except (ValueError, RecursionError) as err:
        raise exception.InvalidQuantity(
            f'{shown} is no list of flavors in JSON'
        ) from err
    if not isinstance(listed, list):
        raise exception.InvalidQuantity(f'{shown} is no list of flavors')
    found = list(filter(None, map(_read, listed)))
    if not found:
        raise exception.InvalidQuantity(
            f'{shown} has no flavor with {RESERVATION}: write it with '
            'openstack flavor list --long -f json'
        )
    return sorted(found, key=lambda each: each.reservation.ppm)


def _read(listed: Any) -> Flavor | None:
    if not isinstance(listed, dict):
        return None
    fields = {str(key).lower(): value for key, value in listed.items()}
    properties = fields.get('properties')
    text = ''
    if isinstance(properties, dict):
        text = str(properties.get(RESERVATION, ''))
    elif found := _PROPERTY.search(str(properties)):
        text = found[1]
    vcpus = fields.get('vcpus')
    try:
        reservation = Reservation.parse(text)
    except exception.InvalidRequest:
        return None
    if type(vcpus) is not int:
        return None
    return Flavor(str(fields.get('name', '')), vcpus, reservation)


def choose(
    flavors: list[Flavor],
    vcpus: int,
    fraction: float,
    in_time: Callable[[Reservation], float],
    most_per_s: Callable[[Reservation], float],
    rate_per_s: float,
) -> columns.Told:
    """Tell the smallest flavor that is enough, and by how much.

    :param in_time: the share of requests in time with a reservation
    :param most_per_s: the rate that it bears
    :returns: for programs, a mapping; None if none is enough
    """
    right = [each for each in flavors if each.vcpus == vcpus]
    if not right:
        return columns.Told(
            None, f'none of {len(flavors)} has {vcpus} vCPUs and a reservation'
        )
    share = 0.0
    for each in right:
        share = in_time(each.reservation)
        if share < fraction:
            continue
        rate = most_per_s(each.reservation)
        return columns.Told(
            {
                'Name': each.name,
                'Reservation': str(each.reservation),
                'In time': share,
                'Rate': rate,
            },
            f'{each.name}, {each.reservation}: '
            f'{columns.Percent(share).human_readable()} in time;',
            f'it bears {columns.Rate(rate).human_readable()}, '
            f'{rate / rate_per_s - 1:.1%} more',
        )
    return columns.Told(
        None,
        f'none of {len(right)} is enough: {right[-1].name},',
        f'{right[-1].reservation}, has '
        f'{columns.Percent(share).human_readable()} in time',
    )
