# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-manage db``: the tables of the database."""

import datetime
import sys
import time
from typing import Any

from cliff import command, show

from nova_rt import exception


class _DatabaseNotReady(exception.NovaRTError):
    """The database has not the tables that this software needs."""


def _configure(app: Any) -> None:
    # Not above: a list of commands imports this module, too.
    from nova_rt.db import session

    if not app.conf.nova_rt_database.connection:
        raise _DatabaseNotReady(
            '[nova_rt_database] connection is not set: run this where '
            'nova-rt-conductor has its configuration'
        )
    session.configure(app.conf)


class Sync(command.Command):
    """Bring the tables up to what this version of nova_rt needs.

    Does nothing if they are. Run it before the conductors start with new
    code; those that run with older code bear it.
    """

    def take_action(self, parsed_args: Any) -> None:
        """Run the migrations."""
        from nova_rt.db import migration

        _configure(self.app)
        migration.sync()


class Version(show.ShowOne):
    """Show the revision of the tables, and the one that is needed."""

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        """Read both."""
        from nova_rt.db import migration

        _configure(self.app)
        return (
            ('revision', 'needed'),
            (migration.get_version() or '', migration.get_newest()),
        )


class Check(command.Command):
    """Compare the tables with what this version of nova_rt needs.

    The exit code is 1 if a revision is missing or a table differs.
    """

    def take_action(self, parsed_args: Any) -> int:
        """Print what differs."""
        from nova_rt.db import migration

        _configure(self.app)
        if migration.is_behind():
            print(
                f'The tables have revision {migration.get_version()}, '
                f'{migration.get_newest()} is needed: run nova-rt-manage db '
                'sync.'
            )
            return 1
        found = migration.find_differences()
        for difference in found:
            print(difference)
        return 1 if found else 0


class Purge(show.ShowOne):
    """Delete what is older than ``[nova_rt_database] keep_*`` allows.

    The conductors do this by themselves. Samples are summed up first, and
    rows are deleted a few at a time: services may run, and the command may be
    interrupted.
    """

    def get_parser(self, prog_name: str) -> Any:
        """Declare the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--max-seconds',
            type=int,
            metavar='SECONDS',
            help='leave the rest for another time after so many seconds',
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        """Delete, and say how much."""
        from nova_rt.db import api, retention

        _configure(self.app)
        app: Any = self.app
        keep = retention.from_options(app.conf)
        now = datetime.datetime.now(datetime.UTC)
        begin_s = time.monotonic()
        api.sum_up(now, keep.samples)
        total = steps = 0
        longest_s = 0.0
        finished = True
        last_s = time.monotonic()
        for rows in api.purge(now, keep):
            now_s = time.monotonic()
            longest_s = max(longest_s, now_s - last_s)
            last_s = now_s
            total += rows
            steps += 1
            if sys.stderr.isatty():
                print(f'\r{total} rows', end='', file=sys.stderr)
            limit_s = parsed_args.max_seconds
            if limit_s is not None and now_s - begin_s >= limit_s:
                finished = False
                break
        if sys.stderr.isatty() and steps:
            print(file=sys.stderr)
        return (
            ('rows', 'transactions', 'longest_ms', 'finished'),
            (total, steps, int(longest_s * 1000), finished),
        )
