# SPDX-License-Identifier: Apache-2.0
"""``usage list|show|export``: what servers reserved and used, by the hour."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import csv
import dataclasses
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, TextIO

from nova_rt.cmd.cli import base, terminal
from nova_rt.manage import stored

if TYPE_CHECKING:
    from nova_rt.db.objects import HourUsage, Usage

_DAY = '24h'
_AMOUNTS = ('Reserved s', 'Used s', 'Used %', 'Periods', 'Throttled')
_LIST = ('Server', 'Host', 'Hours', *_AMOUNTS)
_SHOW = ('Hour', 'Host', *_AMOUNTS)
_EXPORT = (
    'hour', 'server', 'host', 'reserved_us', 'used_us', 'periods', 'throttled',
)  # fmt: skip


class _OfHours:
    """Base of the commands, with the options that they share."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options.

        :returns: the parser
        """
        parser: argparse.ArgumentParser
        parser = super().get_parser(prog_name)  # type: ignore[misc]
        parser.add_argument(
            '--host', help='On this host alone. Default: on all.'
        )
        parser.add_argument(
            '--since',
            type=stored.parse_time,
            default=_DAY,
            metavar='TIME',
            help='Hours that begin then or later: so long ago (24h, 30d), or '
            f'a time such as 2026-02-03T04:00, UTC. Default: {_DAY}.',
        )
        parser.add_argument(
            '--until',
            type=stored.parse_time,
            default='0s',
            metavar='TIME',
            help='Hours that begin before. Default: now, and so with the hour '
            'that is not over, as last reported.',
        )
        return parser


def _check(options: argparse.Namespace, conf: Any) -> None:
    """Refuse options that name no time, and hosts that nobody knows."""
    if options.since >= options.until:
        raise base.CannotRun('--since is not before --until')
    stored.require(conf)
    from nova_rt.db import api

    with stored.errors():
        if options.host is not None:
            api.get_host(options.host)
        stored.warn_of_no_reports()


def _iterate(options: argparse.Namespace) -> Iterator['HourUsage']:
    from nova_rt.db import api

    return api.iterate_hours(
        options.since, options.until, options.host, options.server
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else round(microseconds / 10**6, 3)


def _show(usage: 'Usage') -> tuple[Any, ...]:
    share = None
    if usage.used_us is not None and usage.reserved_us:
        share = round(100 * usage.used_us / usage.reserved_us, 1)
    return (
        _seconds(usage.reserved_us),
        _seconds(usage.used_us),
        share,
        usage.periods,
        usage.throttled,
    )


class List(_OfHours, base.Lister):
    """List what servers reserved and used, added up for each host.

    What the kernel does not count is None: one that limits reservations counts
    the CPU time alone, that of ordinary tasks included.
    """

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        _check(parsed_args, self.conf)
        from nova_rt.db import api

        with stored.errors():
            found = api.list_usage(
                parsed_args.since, parsed_args.until, parsed_args.host
            )
        return _LIST, (
            (each.server, each.host, each.hours, *_show(each))
            for each in found
        )


class Show(_OfHours, base.Lister):
    """List what a server reserved and used, hour by hour.

    During a move a server has hours on two hosts. See ``usage list`` for what
    is None.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the argument.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('server', help='UUID of the server.')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Read them.

        :returns: columns and rows
        """
        _check(parsed_args, self.conf)
        from nova_rt.db import api

        with stored.errors():
            api.get_server(parsed_args.server)
            found = list(_iterate(parsed_args))
        return _SHOW, [
            (stored.render_time(each.at), each.host, *_show(each))
            for each in found
        ]


class Export(_OfHours, base.Command):
    """Write hours of servers as CSV, or as JSON with one object on each line.

    Times are UTC, everything else is in microseconds. Memory does not grow
    with the time that is exported.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--server', metavar='UUID', help='Of this server alone.'
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
        _check(parsed_args, self.conf)
        from nova_rt.db import api

        with stored.errors():
            if parsed_args.server is not None:
                api.get_server(parsed_args.server)
            hours = _iterate(parsed_args)
            hour = next(hours, None)
        with self._open(parsed_args.output) as stream:
            write = _WRITERS[parsed_args.format](stream)
            while hour is not None:
                write(_make_row(hour))
                # Not around the writing: its errors are others.
                with stored.errors():
                    hour = next(hours, None)

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


def _make_row(hour: 'HourUsage') -> Mapping[str, Any]:
    values = dataclasses.asdict(hour)
    values['hour'] = stored.render_time(hour.at)
    values['host'] = terminal.escape(hour.host)
    return {field: values[field] for field in _EXPORT}


_Write = Callable[[Mapping[str, Any]], Any]


def _write_csv(stream: TextIO) -> _Write:
    writer = csv.DictWriter(stream, _EXPORT, lineterminator='\n')
    writer.writeheader()
    return writer.writerow


def _write_json(stream: TextIO) -> _Write:
    return lambda row: stream.write(f'{json.dumps(row)}\n')


_WRITERS: Mapping[str, Callable[[TextIO], _Write]] = {
    'csv': _write_csv,
    'json': _write_json,
}
