# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-manage db``: the database of the history."""

import argparse
from collections.abc import Iterator
import datetime
import time
from typing import Any

from nova_rt.cmd.cli import base, terminal
from nova_rt.manage import db_access, progress


class Sync(base.Command):
    """Bring the tables to the state that this version of nova_rt needs.

    Does nothing if they are. Run it before the conductors start with new
    code; those that run with older code bear it.
    """

    def take_action(self, parsed_args: Any) -> None:
        """Run the migrations."""
        db_access.require(self.conf)
        from nova_rt.db import migration

        with db_access.errors():
            migration.sync()


class Version(base.ShowOne):
    """Show the revision of the tables, and the one that is needed."""

    def take_action(self, parsed_args: Any) -> base.Values:
        """Read both."""
        db_access.require(self.conf)
        from nova_rt.db import migration

        with db_access.errors():
            found = migration.get_version()
        return ('revision', 'needed'), (found or '', migration.get_newest())


class Check(base.Command):
    """Compare the tables with those that this version of nova_rt needs.

    The exit code is 1 if a revision is missing or a table differs.
    """

    def take_action(self, parsed_args: Any) -> int:
        """Print the differences."""
        db_access.require(self.conf)
        from nova_rt.db import migration

        with db_access.errors():
            if migration.is_behind():
                print(
                    f'The tables have revision {migration.get_version()}, '
                    f'{migration.get_newest()} is needed: run nova-rt-manage '
                    'db sync.',
                    file=self.app.stdout,
                )
                return 1
            found = migration.find_differences()
        for difference in found:
            print(terminal.escape(difference), file=self.app.stdout)
        return 1 if found else 0


class Purge(base.ShowOne):
    """Delete events older than ``[nova_rt_database] keep_history_days``.

    The conductors do this by themselves. Rows are deleted a few at a time:
    services may run, and the command may be interrupted.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument(
            '--max-seconds',
            type=int,
            metavar='SECONDS',
            help='leave the rest for another time after so many seconds',
        )

    def take_action(self, parsed_args: Any) -> base.Values:
        """Delete, and say how much."""
        db_access.require(self.conf)
        from nova_rt.db import api, retention

        keep = retention.from_options(self.conf)
        now = datetime.datetime.now(datetime.UTC)
        with db_access.errors():
            steps = progress.track(
                api.purge(now, keep), 'Deleting', self.app.stderr
            )
            return _purge(steps, parsed_args.max_seconds)


def _purge(steps: Iterator[int], limit_s: int | None) -> tuple[Any, Any]:
    """Take steps until there is none, or the time is up.

    :param steps: each a transaction, the rows that it has deleted
    :returns: columns and values
    """
    begin_s = last_s = time.monotonic()
    total = count = 0
    longest_s = 0.0
    finished = True
    for rows in steps:
        now_s = time.monotonic()
        longest_s = max(longest_s, now_s - last_s)
        last_s = now_s
        total += rows
        count += 1
        if limit_s is not None and now_s - begin_s >= limit_s:
            finished = False
            break
    return (
        ('rows', 'transactions', 'longest_ms', 'finished'),
        (total, count, int(longest_s * 1000), finished),
    )
