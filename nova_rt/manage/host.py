# SPDX-License-Identifier: Apache-2.0
"""``host list|show``: bandwidth that hosts can promise, and have promised."""

import argparse
from collections.abc import Sequence
import datetime
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.cli import base
from nova_rt.manage import db_access, progress

if TYPE_CHECKING:
    from nova_rt.cloud.records import HostRecord

_LIST = (
    'Host', 'Interface', 'Enforcement', 'CPUs', 'Capacity ppm',
    'Reserved ppm', 'Servers', 'Last seen', 'Age s',
)  # fmt: skip
_SHOW = ('CPU', 'Reserved ppm', 'Free ppm', 'Servers')


class List(base.Lister):
    """List the hosts that offer bandwidth, as Nova and Placement have them.

    Capacity and reserved are those of Placement. A compute service that is
    down is told by its age.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Read columns and rows."""
        from nova_rt.manage import records

        with records.connect() as source:
            nodes = progress.track(
                source.find_nodes(None), 'Hosts', self.app.stderr
            )
            hosts = [source.read_host(node) for node in nodes]
        now = datetime.datetime.now(datetime.UTC)
        return _LIST, [_list(host, now) for host in hosts if host is not None]


def _list(host: 'HostRecord', now: datetime.datetime) -> Sequence[Any]:
    seen = age_s = None
    if host.seen_at is not None:
        seen = db_access.render_time(host.seen_at)
        age_s = round((now - host.seen_at).total_seconds())
    return (
        host.name,
        host.stats.get('rt_interface'),
        host.stats.get('rt_enforcement'),
        None if host.free is None else len(host.free.cpus),
        host.capacity_ppm,
        host.used_ppm,
        len({each.server for each in host.holdings}),
        seen,
        age_s,
    )


class Show(base.Lister):
    """List the CPUs of a host: reserved and free bandwidth.

    Reserved is the sum of the servers' records, free was published by
    nova-rt-compute. The last row has the whole host: where its kernel sums
    over all CPUs, less may be free there than on them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument('host', help='Name of the host.')

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Read it.

        :returns: columns and rows
        :raises CommandFailed: if it offers no bandwidth
        """
        from nova_rt.manage import records

        with records.connect() as source:
            (node, *_) = source.find_nodes(parsed_args.host)
            host = source.read_host(node)
        if host is None:
            raise base.CommandFailed(f'host {node.host} offers no bandwidth')
        return _SHOW, _list_cpus(host)


def _list_cpus(host: 'HostRecord') -> list[Sequence[Any]]:
    free = {} if host.free is None else host.free.cpus
    reserved = host.reserved
    held = [
        each.record.cpus for each in host.holdings if each.record is not None
    ]
    rows: list[Sequence[Any]] = [
        (
            cpu, reserved.get(cpu, 0), free.get(cpu),
            sum(cpu in cpus for cpus in held),
        )
        for cpu in sorted(free.keys() | reserved.keys())
    ]  # fmt: skip
    free_ppm = None if host.free is None else host.free.total_ppm
    rows.append(('host', sum(reserved.values()), free_ppm, len(host.holdings)))
    return rows
