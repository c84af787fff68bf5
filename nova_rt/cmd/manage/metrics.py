# SPDX-License-Identifier: Apache-2.0
"""``metrics show|export``: what was reserved and used over time."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import csv
import dataclasses
import datetime
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, TextIO

from nova_rt.cmd.cli import base, terminal
from nova_rt.cmd.manage import progress, stored

if TYPE_CHECKING:
    from nova_rt.db.objects import HostSample, Sample

    AnySample = Sample | HostSample

_DAY = '24h'
_SHOW = (
    'Time', 'CPU', 'Span s', 'Reserved ms', 'Used ms', 'Used %', 'Periods',
    'Throttled',
)  # fmt: skip
_SHOW_HOST = (
    'Time', 'CPU', 'Span s', 'Capacity ms', 'Reserved ms', 'Used ms',
)  # fmt: skip
_SERVER_FIELDS = (
    'at', 'server', 'cpu', 'span_us', 'reserved_us', 'used_us', 'periods',
    'throttled',
)  # fmt: skip
_HOST_FIELDS = (
    'at', 'host', 'cpu', 'span_us', 'capacity_us', 'reserved_us', 'used_us',
)  # fmt: skip

#: Resolution -> what is read at once, so that memory does not grow with the
#: time that is exported: a few thousand samples.
_WINDOWS = {
    'raw': datetime.timedelta(hours=6),
    '5min': datetime.timedelta(days=7),
    'hour': datetime.timedelta(days=60),
}


def _add_times(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--since',
        type=stored.parse_time,
        default=_DAY,
        metavar='TIME',
        help='From then on: so long ago (30m, 24h, 7d), or a time such as '
        f'2026-02-03T04:05, UTC. Default: {_DAY}.',
    )
    parser.add_argument(
        '--until',
        type=stored.parse_time,
        default='0s',
        metavar='TIME',
        help='Until then. Default: now.',
    )


def _check_times(options: argparse.Namespace) -> None:
    if options.since >= options.until:
        raise base.CannotRun('--since is not before --until')


def _ms(microseconds: int | None) -> int | None:
    return None if microseconds is None else round(microseconds / 1000)


class Show(base.Lister):
    """List what a server reserved and used, CPU by CPU and span by span.

    What the kernel does not count is None: one that limits reservations counts
    the CPU time alone, that of ordinary tasks included.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument('server', nargs='?', help='UUID of the server.')
        what.add_argument('--host', help='The CPUs of this host instead.')
        _add_times(parser)
        parser.add_argument(
            '--resolution',
            choices=list(_WINDOWS),
            help='Samples as they were reported, or summed over five minutes '
            'or an hour. Default: what suits the time that is asked for.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        _check_times(parsed_args)
        stored.require(self.conf)
        from nova_rt.db import api

        span = parsed_args.since, parsed_args.until, parsed_args.resolution
        with stored.errors():
            if parsed_args.host is not None:
                # None of a host that is not known would look like silence.
                api.get_host(parsed_args.host)
                of_host = api.read_host_samples(parsed_args.host, *span)
                return _SHOW_HOST, map(_show_host, of_host)
            api.get_server(parsed_args.server)
            samples = api.read_samples(parsed_args.server, *span)
            return _SHOW, map(_show, samples)


def _show(sample: 'Sample') -> Sequence[Any]:
    share = None
    if sample.used_us is not None and sample.reserved_us:
        share = round(100 * sample.used_us / sample.reserved_us, 1)
    return (
        stored.render_time(sample.at),
        sample.cpu,
        round(sample.span_s, 1),
        _ms(sample.reserved_us),
        _ms(sample.used_us),
        share,
        sample.periods,
        sample.throttled,
    )


def _show_host(sample: 'HostSample') -> Sequence[Any]:
    return (
        stored.render_time(sample.at),
        sample.cpu,
        round(sample.span_s, 1),
        _ms(sample.capacity_us),
        _ms(sample.reserved_us),
        _ms(sample.used_us),
    )


class Export(base.Command):
    """Write samples as CSV, or as JSON with one object on each line.

    Times are UTC, everything else is in microseconds. Memory does not grow
    with what is exported.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            '--server',
            action='append',
            metavar='UUID',
            help='This server alone; can be repeated. Default: all.',
        )
        what.add_argument(
            '--hosts',
            action='store_true',
            help='The CPUs of all hosts instead of those of servers.',
        )
        _add_times(parser)
        parser.add_argument(
            '--resolution',
            choices=list(_WINDOWS),
            default='5min',
            help='Samples as they were reported, or summed over five minutes '
            'or an hour. Default: 5min.',
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=['csv', 'json'],
            default='csv',
            help='Default: csv.',
        )
        parser.add_argument(
            '--output',
            metavar='FILE',
            help='File to write. It is there when all is written, and not '
            'before. Default: standard output.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write them.

        :raises CommandFailed: if the file cannot be written
        """
        _check_times(parsed_args)
        stored.require(self.conf)
        from nova_rt.db import api

        fields: Sequence[str]
        read: Callable[..., Sequence[AnySample]]
        with stored.errors():
            if parsed_args.hosts:
                fields, read = _HOST_FIELDS, api.read_host_samples
                owners = [host.name for host in api.list_hosts()]
            else:
                fields, read = _SERVER_FIELDS, api.read_samples
                owners = parsed_args.server or _list_servers()
                for server in parsed_args.server or ():
                    api.get_server(server)
        window = _WINDOWS[parsed_args.resolution]
        with self._open(parsed_args.output) as stream:
            write = _WRITERS[parsed_args.format](stream, fields)
            for owner in progress.track(owners, 'Samples', self.app.stderr):
                begin = parsed_args.since
                while begin < parsed_args.until:
                    end = min(begin + window, parsed_args.until)
                    with stored.errors():
                        samples = read(
                            owner, begin, end, parsed_args.resolution
                        )
                    for sample in samples:
                        write(_make_row(fields, owner, sample))
                    begin = end

    @contextlib.contextmanager
    def _open(self, name: str | None) -> Iterator[TextIO]:
        if name is None:
            yield self.app.stdout
            return
        path = pathlib.Path(name)
        part = path.with_name(f'{path.name}.part')
        try:
            with part.open('w', encoding='utf-8', newline='') as stream:
                yield stream
            os.replace(part, path)
        except OSError as err:
            raise base.CommandFailed(
                f'cannot write {name}: {err.strerror}'
            ) from err
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def _list_servers() -> list[str]:
    """List all servers that have or had reservations.

    :returns: their UUIDs
    """
    from nova_rt.db import api

    seen: dict[str, None] = {}
    for host in api.list_hosts():
        # Host by host: of all that ever were, only the UUIDs are kept.
        for server in api.list_servers(host.name, include_released=True):
            seen[server.uuid] = None
    return list(seen)


def _make_row(
    fields: Sequence[str], owner: str, sample: 'AnySample'
) -> Mapping[str, Any]:
    values = dataclasses.asdict(sample)
    values['at'] = stored.render_time(sample.at)
    # Its name is the second field: server or host.
    values[fields[1]] = terminal.escape(owner)
    return {field: values[field] for field in fields}


_Write = Callable[[Mapping[str, Any]], Any]


def _write_csv(stream: TextIO, fields: Sequence[str]) -> _Write:
    writer = csv.DictWriter(stream, fields, lineterminator='\n')
    writer.writeheader()
    return writer.writerow


def _write_json(stream: TextIO, fields: Sequence[str]) -> _Write:
    return lambda row: stream.write(f'{json.dumps(row)}\n')


_WRITERS: Mapping[str, Callable[[TextIO, Sequence[str]], _Write]] = {
    'csv': _write_csv,
    'json': _write_json,
}
