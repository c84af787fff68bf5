# SPDX-License-Identifier: Apache-2.0
"""Takes reports from the message bus into the database.

Nothing here raises because of what a report says. What cannot be read is
refused: it is logged once for each host and reason, and counted. What the
database does not take is left for the compute to send again; that is logged
once until the database takes something again, and counted.
"""

from collections.abc import Callable, Iterator
import contextlib
import datetime
import logging as stdlib_logging
import threading
from typing import Any

from oslo_log import log as logging
import oslo_messaging

from nova_rt import exception
from nova_rt.conductor import messages, metrics, rpcapi
from nova_rt.db import api
from nova_rt.db.objects import Retention

LOG = logging.getLogger(__name__)

#: Samples are refused that are so much older or younger than now.
_OLDEST = datetime.timedelta(days=1)
_YOUNGEST = datetime.timedelta(minutes=10)
#: Reasons to remember, so that each is logged once.
_MOST_REASONS = 1000
_LEASE = datetime.timedelta(minutes=30)
_JOB = 'upkeep'


def quieten() -> None:
    """Keep oslo.db from logging each error that we log once."""
    stdlib_logging.getLogger('oslo_db.sqlalchemy.exc_filters').setLevel(
        stdlib_logging.CRITICAL
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _first_line(err: Exception) -> str:
    """Return what went wrong, without the SQL statement."""
    return str(err).partition('\n')[0]


class Manager:
    """The methods that computes call.

    They may run in several threads at once.

    :param clock: says the time
    """

    target = oslo_messaging.Target(
        namespace=rpcapi.NAMESPACE, version=rpcapi.VERSION
    )

    def __init__(self, clock: Callable[[], datetime.datetime] = _now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()
        self._database_up = True

    def get_position(
        self, context: Any, host: Any, epoch: Any
    ) -> dict[str, int] | None:
        """Say what has come of a host's reports.

        :returns: None if it cannot be said now; the compute keeps what it has
        """
        with self._taking('get_position', host):
            found = api.get_position(
                messages.read_host(host), messages.read_number('epoch', epoch)
            )
            return {'epoch': found.epoch, 'event_seq': found.event_seq}
        return None

    def report_state(
        self, context: Any, host: Any, epoch: Any, seq: Any, state: Any
    ) -> None:
        """Take the whole picture of a host."""
        with self._taking('report_state', host):
            new = messages.read_state(
                state,
                messages.read_number('epoch', epoch),
                messages.read_number('seq', seq),
            )
            api.record_state(messages.read_host(host), new, self._clock())

    def report_events(
        self, context: Any, host: Any, epoch: Any, events: Any
    ) -> None:
        """Take what happened on a host."""
        with self._taking('report_events', host):
            new, dropped_seq = messages.read_events(events)
            api.record_events(
                messages.read_host(host),
                messages.read_number('epoch', epoch),
                new,
                self._clock(),
                dropped_seq,
            )

    def report_samples(self, context: Any, host: Any, samples: Any) -> None:
        """Take what was used on a host."""
        with self._taking('report_samples', host):
            of_servers, of_host = messages.read_samples(samples)
            now = self._clock()
            times = [each.at for each in of_host]
            for some in of_servers.values():
                times += [each.at for each in some]
            if times and not (
                now - _OLDEST <= min(times) and max(times) <= now + _YOUNGEST
            ):
                raise exception.InvalidReport(
                    'its clock is wrong: a sample is too old or lies in the '
                    'future'
                )
            api.record_samples(messages.read_host(host), of_servers, of_host)

    @contextlib.contextmanager
    def _taking(self, method: str, host: Any) -> Iterator[None]:
        try:
            yield
        except exception.InvalidReport as err:
            metrics.REFUSED.labels(method).inc()
            self._log_refusal(host, method, str(err))
        except api.ERRORS as err:
            metrics.FAILED.labels(method).inc()
            self._log_failure(err)
        else:
            metrics.REPORTS.labels(method).inc()
            self._log_recovery()

    def _log_refusal(self, host: Any, method: str, reason: str) -> None:
        name = messages.clean(str(host))[:255]
        with self._lock:
            key = (name, f'{method} {reason}')
            if key in self._logged or len(self._logged) >= _MOST_REASONS:
                return
            self._logged.add(key)
        LOG.error(
            'Refused %s of host %s: %s. This is logged once.',
            method, name, messages.clean(reason),
        )  # fmt: skip

    def _log_failure(self, err: Exception) -> None:
        with self._lock:
            if not self._database_up:
                return
            self._database_up = False
        LOG.error(
            'The database takes no reports: %s. Computes keep events and '
            'send them again; samples are lost until it does.',
            _first_line(err),
        )  # fmt: skip

    def _log_recovery(self) -> None:
        if self._database_up:
            return
        with self._lock:
            self._database_up = True
        LOG.info('The database takes reports again')


class Upkeep:
    """Sums up samples and deletes what is too old.

    :param retention: how long to keep what
    :param clock: says the time
    """

    def __init__(
        self,
        retention: Retention,
        clock: Callable[[], datetime.datetime] = _now,
    ) -> None:
        self._retention = retention
        self._clock = clock
        self._failing = False

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Do what is due, unless another conductor does.

        :param stopping: asked between two steps whether to leave the rest
        """
        try:
            self._run(stopping)
        except api.ERRORS as err:
            metrics.UPKEEP_FAILED.inc()
            if not self._failing:
                LOG.error('Could not sum up or delete samples: %s. The next '
                          'run goes on.', _first_line(err))  # fmt: skip
            self._failing = True
        else:
            self._failing = False

    def _run(self, stopping: Callable[[], bool]) -> None:
        now = self._clock()
        if not api.take_lease(_JOB, now, _LEASE):
            return
        api.sum_up(now, self._retention.samples)
        for rows in api.purge(now, self._retention):
            metrics.PURGED.inc(rows)
            if stopping():
                break
        api.end_lease(_JOB)
