# SPDX-License-Identifier: Apache-2.0
"""Measure how long reading and purging take in a database with many samples.

Starts a MariaDB of its own, fills it, and prints JSON: seconds to read one
server and day, to sum up an hour, and to purge, with the longest transaction
of each. Run it from the checkout, as root or as anyone else:

    python -m bench.samples --rows 10000000
"""

import argparse
import datetime
import json
import pathlib
import random
import statistics
import sys
import time
from typing import Any

import sqlalchemy as sa

from nova_rt.db import api, models, progress, series, session, sums
from nova_rt.db.objects import Resolution, Retention
from nova_rt.tests.fixtures import database
from nova_rt.tests.fixtures.reports import make_uuid

#: One server: two CPUs, a sample every ten seconds, a day.
STEP_S = 10
CPUS = 2
PER_SERVER = CPUS * 24 * 3600 // STEP_S
HOUR = datetime.timedelta(hours=1)
DAY = 24 * HOUR
NOW = datetime.datetime(2027, 3, 2, tzinfo=datetime.UTC)

Figures = dict[str, Any]


class Transactions:
    """Measures how long each transaction of the process is open."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.count = 0
        engine = session.get_engine()
        sa.event.listen(engine, 'begin', self._begin)
        sa.event.listen(engine, 'commit', self._end)
        sa.event.listen(engine, 'rollback', self._end)

    def _begin(self, connection: sa.Connection) -> None:
        connection.info['begun_s'] = time.perf_counter()

    def _end(self, connection: sa.Connection) -> None:
        span_s = time.perf_counter() - connection.info['begun_s']
        self.longest_s = max(self.longest_s, span_s)
        self.count += 1

    def reset(self) -> None:
        """Count from now on."""
        self.longest_s, self.count = 0.0, 0


def fill(rows: int) -> int:
    """Put samples of one day in.

    :returns: the number of servers
    """
    servers = max(1, rows // PER_SERVER)
    with session.writer() as writer:
        writer.execute(
            sa.insert(models.Server),
            [{'uuid': make_uuid(number)} for number in range(servers)],
        )
    first_us = models.to_us(NOW - DAY)
    with session.writer() as writer:
        # The numbers 0, 1, 2 ... are MariaDB's own: no row crosses the wire.
        writer.execute(sa.text('SET SESSION unique_checks = 0'))
    for number in range(1, servers + 1):
        with session.writer() as writer:
            writer.execute(
                sa.text(  # A number of ours alone is put in.
                    'INSERT INTO samples SELECT :server, 0, '  # noqa: S608
                    ':first + (seq DIV :cpus) * :step, seq MOD :cpus, :step, '
                    '(:step * 7) DIV 10, FLOOR(RAND() * :step * 0.7), '
                    '5000, FLOOR(RAND() * 50) '
                    f'FROM seq_0_to_{PER_SERVER - 1}'
                ),
                {
                    'server': number,
                    'first': first_us,
                    'cpus': CPUS,
                    'step': STEP_S * 1_000_000,
                },
            )
    return servers


def measure_reading(servers: int) -> Figures:
    """Read one server and day, with caches as cold as they are."""
    figures: Figures = {}
    choose = random.Random(1)  # noqa: S311
    for resolution in ('raw', '5min', None):
        spans_s = []
        for _ in range(9):
            uuid = make_uuid(choose.randrange(servers))
            begin_s = time.perf_counter()
            found = api.read_samples(uuid, NOW - DAY, NOW, resolution)
            spans_s.append(time.perf_counter() - begin_s)
        figures[str(resolution or 'best')] = {
            'rows': len(found),
            'median_s': round(statistics.median(spans_s), 4),
            'longest_s': round(max(spans_s), 4),
        }
    return figures


def _timed(transactions: Transactions, do: Any) -> Figures:
    transactions.reset()
    begin_s = time.perf_counter()
    result = do()
    return {
        'result': result,
        'seconds': round(time.perf_counter() - begin_s, 2),
        'transactions': transactions.count,
        'longest_transaction_s': round(transactions.longest_s, 3),
    }


def measure(rows: int) -> Figures:
    """Fill a database and measure.

    :returns: the figures
    """
    begin_s = time.perf_counter()
    servers = fill(rows)
    figures: Figures = {
        'rows': servers * PER_SERVER,
        'servers': servers,
        'fill_s': round(time.perf_counter() - begin_s, 1),
    }
    keep = {each: 400 * DAY for each in Resolution}
    transactions = Transactions()
    end = NOW + sums.GRACE
    with session.writer() as writer:
        # All but the last hour, at once: what a conductor does that was away.
        for table in (series.SERVERS, series.HOSTS):
            for resolution in (Resolution.FIVE_MINUTES, Resolution.HOUR):
                row = progress.lock_progress(writer, table.job(resolution))
                row.done_us = models.to_us(NOW - DAY)
    figures['sum_up_day'] = _timed(
        transactions, lambda: api.sum_up(end - HOUR, keep)
    )
    figures['sum_up_hour'] = _timed(
        transactions, lambda: api.sum_up(end, keep)
    )
    figures['read_server_day'] = measure_reading(servers)
    keep[Resolution.RAW] = HOUR
    retention = Retention(keep, 400 * DAY)
    figures['purge'] = _timed(
        transactions, lambda: sum(api.purge(NOW, retention))
    )
    with session.reader() as reader:
        size = reader.execute(sa.text(
            'SELECT data_length, index_length FROM information_schema.tables '
            "WHERE table_name = 'samples' AND table_schema = DATABASE()"
        )).one()  # fmt: skip
    figures['table_bytes'], figures['index_bytes'] = map(int, size)
    return figures


def main() -> int:
    """Measure, print, and compare with what was promised.

    :returns: the exit code, 1 if a figure is too large
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rows', type=int, default=1_000_000)
    parser.add_argument('--output', type=pathlib.Path)
    args = parser.parse_args()
    server = database.MariaDB()
    with server, database.Database(server):
        figures = measure(args.rows)
    text = json.dumps(figures, indent=2)
    print(text)
    if args.output:
        args.output.write_text(text + '\n')
    slow = [
        name
        for name in ('sum_up_hour', 'purge')
        if figures[name]['longest_transaction_s'] > 1
    ]
    slow += [
        f'read {name}'
        for name, found in figures['read_server_day'].items()
        if found['median_s'] > 0.3
    ]
    if slow:
        print(f'too slow: {", ".join(slow)}', file=sys.stderr)
    return 1 if slow else 0


if __name__ == '__main__':
    sys.exit(main())
