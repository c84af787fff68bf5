# SPDX-License-Identifier: Apache-2.0
"""Measure how large the usage of servers is in a database, and how it is read.

Starts a MariaDB of its own, fills it, and prints JSON: bytes of an hour of a
server, seconds to list and to export, and to purge, with the longest
transaction. Run it from the checkout, as root or as anyone else:

    python -m bench.usage --servers 2000 --days 30
"""

import argparse
from collections.abc import Callable
import datetime
import json
import pathlib
import sys
import time
from typing import Any

import sqlalchemy as sa

from nova_rt.db import api, models, session
from nova_rt.db.objects import Retention
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.reports import HOUR, NOW, make_uuid

DAY = datetime.timedelta(days=1)
SERVERS_OF_A_HOST = 20
#: The longest that a report may wait for a purge, seconds.
LONGEST_S = 1.0

Figures = dict[str, Any]


class Transactions:
    """Measures how long each transaction of the process is open."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        engine = session.get_engine()
        sa.event.listen(engine, 'begin', self._begin)
        sa.event.listen(engine, 'commit', self._end)
        sa.event.listen(engine, 'rollback', self._end)

    def _begin(self, connection: sa.Connection) -> None:
        connection.info['begun_s'] = time.perf_counter()

    def _end(self, connection: sa.Connection) -> None:
        span_s = time.perf_counter() - connection.info['begun_s']
        self.longest_s = max(self.longest_s, span_s)


def fill(servers: int, hours: int) -> None:
    """Put in the hours before that of NOW, in the order of their reports."""
    with session.writer() as writer:
        writer.execute(
            sa.insert(models.HostRow),
            [
                {'name': f'host{number}'}
                for number in range(-(-servers // SERVERS_OF_A_HOST))
            ],
        )
        writer.execute(
            sa.insert(models.ServerRow),
            [{'uuid': make_uuid(number)} for number in range(servers)],
        )
    for hour in range(HOUR - hours, HOUR):
        with session.writer() as writer:
            # The numbers 0, 1, 2 ... are MariaDB's own: no row crosses the
            # wire. Only numbers are put in.
            writer.execute(
                sa.text(
                    'INSERT INTO server_hours SELECT seq + 1, '  # noqa: S608
                    f'{hour}, seq DIV {SERVERS_OF_A_HOST} + 1, 1700000000, '
                    '5040000000, FLOOR(RAND() * 5040000000), 3600000, '
                    f'FLOOR(RAND() * 3600000) FROM seq_0_to_{servers - 1}'
                )
            )


def _timed(do: Callable[[], Any]) -> Figures:
    begin_s = time.perf_counter()
    rows = do()
    return {'rows': rows, 'seconds': round(time.perf_counter() - begin_s, 2)}


def measure(servers: int, days: int) -> Figures:
    """Fill a database and measure.

    :returns: the figures
    """
    fill(servers, 24 * days)
    with session.writer() as writer:
        writer.execute(sa.text('ANALYZE TABLE server_hours'))
    with session.reader() as reader:
        size = reader.execute(
            sa.text(
                'SELECT data_length, index_length, table_rows '
                'FROM information_schema.tables WHERE table_schema = '
                "DATABASE() AND table_name = 'server_hours'"
            )
        ).one()
    begin = NOW - days * DAY
    transactions = Transactions()
    figures = {
        'rows': servers * 24 * days,
        'bytes_of_a_row': round((size[0] + size[1]) / size[2], 1),
        'list_day': _timed(lambda: len(api.list_usage(NOW - DAY, NOW))),
        'list_all': _timed(lambda: len(api.list_usage(begin, NOW))),
        'show_all': _timed(
            lambda: len(
                list(api.iterate_hours(begin, NOW, server=make_uuid(7)))
            )
        ),
        'export_day': _timed(
            lambda: sum(1 for _ in api.iterate_hours(NOW - DAY, NOW))
        ),
    }
    transactions.longest_s = 0.0
    keep = Retention(usage=DAY, history=400 * DAY)
    figures['purge'] = _timed(lambda: sum(api.purge(NOW, keep)))
    figures['purge']['longest_transaction_s'] = round(
        transactions.longest_s, 3
    )
    return figures


def main() -> int:
    """Measure and print.

    :returns: the exit code, 1 if a purge holds up reports for too long
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--servers', type=int, default=2000)
    parser.add_argument('--days', type=int, default=30)
    parser.add_argument('--output', type=pathlib.Path)
    args = parser.parse_args()
    server = database.MariaDB()
    with server, database.Database(server):
        figures = measure(args.servers, args.days)
    text = json.dumps(figures, indent=2)
    print(text)
    if args.output:
        args.output.write_text(text + '\n')
    if figures['purge']['longest_transaction_s'] > LONGEST_S:
        print('a purge holds up reports for too long', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
