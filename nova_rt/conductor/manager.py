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
from nova_rt.conductor import metrics, rpcapi
from nova_rt.db import api
from nova_rt.db.objects import Retention
from nova_rt.formats import messages

LOG = logging.getLogger(__name__)

#: Usage is refused that is so much older or younger than now.
_OLDEST = datetime.timedelta(days=14)
_YOUNGEST = datetime.timedelta(minutes=10)
#: An epoch may lie so far in the future.
_AHEAD = datetime.timedelta(days=1)
#: Reasons to remember, so that each is logged once.
_MOST_REASONS = 1000


def quieten() -> None:
    """Keep oslo.db from logging each error that we log once."""
    stdlib_logging.getLogger('oslo_db.sqlalchemy.exc_filters').setLevel(
        stdlib_logging.CRITICAL
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


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
        """Look up what has come of a host's reports.

        :returns: None if the database does not answer; the compute keeps what
            it has
        :raises InvalidReport: if the reports of this host are refused, with
            the reason for its log
        """
        with self._taking('get_position', host, answers=True):
            found = api.get_position(
                messages.read_host(host), self._read_epoch(epoch)
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
                self._read_epoch(epoch),
                messages.read_number('seq', seq),
            )
            api.record_state(messages.read_host(host), new, self._clock())

    def report_events(
        self, context: Any, host: Any, epoch: Any, events: Any
    ) -> None:
        """Take what happened on a host."""
        self._take_events('report_events', host, epoch, events)

    def report_earlier_events(
        self, context: Any, host: Any, epoch: Any, events: Any
    ) -> bool:
        """Take what happened before the compute service was started.

        :returns: whether it is in the database
        """
        return self._take_events('report_earlier_events', host, epoch, events)

    def _take_events(
        self, method: str, host: Any, epoch: Any, events: Any
    ) -> bool:
        with self._taking(method, host):
            new, dropped_seq = messages.read_events(events)
            api.record_events(
                messages.read_host(host),
                self._read_epoch(epoch),
                new,
                self._clock(),
                dropped_seq,
            )
            return True
        return False

    def report_usage(self, context: Any, host: Any, usage: Any) -> bool:
        """Take what servers of a host have held and used.

        :returns: whether it is in the database
        """
        with self._taking('report_usage', host):
            name, accounts = (
                messages.read_host(host), messages.read_usage(usage),
            )  # fmt: skip
            now = self._clock()
            hours = range(
                api.to_hour(now - _OLDEST), api.to_hour(now + _YOUNGEST) + 1
            )
            good = [each for each in accounts if each.hour in hours]
            if len(good) < len(accounts):
                # The others are not held up by them.
                self._log_refusal(
                    name, 'report_usage', 'its clock is or was wrong: an hour '
                    'is too long ago or lies in the future',
                )  # fmt: skip
            api.record_usage(name, good)
            return True
        return False

    def report_samples(self, context: Any, host: Any, samples: Any) -> None:
        """Drop the samples of a compute of the version before."""
        with self._taking('report_samples', host):
            messages.read_host(host)

    def _read_epoch(self, epoch: Any) -> int:
        """Check the start of a compute service: near its time, see Epoch.

        One that lies far ahead would shut out the next start.
        """
        number = messages.read_number('epoch', epoch)
        if number > (self._clock() + _AHEAD).timestamp():
            raise exception.InvalidReport(
                'its epoch lies in the future, by its clock or by another of '
                'its name: see "host reset"'
            )
        return number

    @contextlib.contextmanager
    def _taking(
        self, method: str, host: Any, answers: bool = False
    ) -> Iterator[None]:
        """Count a report, and log why it is refused or lost.

        :param answers: whether the host gets the reason for a refusal
        """
        try:
            yield
        except exception.InvalidReport as err:
            metrics.REFUSED.labels(method).inc()
            self._log_refusal(host, method, str(err))
            if answers:
                # It goes to the host, without a traceback in our log.
                raise oslo_messaging.ExpectedException from err
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
            'The database takes no reports: it %s. Computes keep them and '
            'send them again.',
            api.describe(err),
        )  # fmt: skip

    def _log_recovery(self) -> None:
        if self._database_up:
            return
        with self._lock:
            self._database_up = True
        LOG.info('The database takes reports again')


#: Between two looks at each server: few of them can go in a day.
_SERVERS = datetime.timedelta(days=1)


class Upkeep:
    """Deletes what is too old.

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
        #: When each server was looked at.
        self._servers_at: datetime.datetime | None = None

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Do what is due; other conductors may do the same meanwhile.

        :param stopping: asked between two steps whether to leave the rest
        """
        try:
            self._run(stopping)
        except api.ERRORS as err:
            metrics.UPKEEP_FAILED.inc()
            if not self._failing:
                LOG.error(
                    'Could not delete expired rows: the database %s. '
                    'The next run goes on.',
                    api.describe(err),
                )
            self._failing = True
        else:
            self._failing = False

    def _run(self, stopping: Callable[[], bool]) -> None:
        now = self._clock()
        servers = (
            self._servers_at is None or now - self._servers_at >= _SERVERS
        )
        for rows in api.purge(now, self._retention, servers):
            metrics.PURGED.inc(rows)
            if stopping():
                return
        if servers:
            self._servers_at = now
