# SPDX-License-Identifier: Apache-2.0
"""Metrics of a conductor, for Prometheus.

Counters are those of one process, or of all workers together where
``PROMETHEUS_MULTIPROC_DIR`` names a directory before this is imported.
"""

from collections.abc import Callable, Iterable, Mapping
import datetime

import prometheus_client
from prometheus_client import core, multiprocess, registry

from nova_rt.metrics.build import Build

EVENTS = prometheus_client.Counter(
    'nova_rt_conductor_events',
    'Events of reservations that were taken from the queue.',
)
REFUSED = prometheus_client.Counter(
    'nova_rt_conductor_refused_events',
    'Events that were dropped because they could not be read.',
)
FAILED = prometheus_client.Counter(
    'nova_rt_conductor_failed_events',
    'Events that went back into the queue because the database did not take '
    'them, as often as they did.',
)
UPKEEP_FAILED = prometheus_client.Counter(
    'nova_rt_conductor_failed_upkeeps',
    'Failed runs of the deletion of expired events.',
)
CHANGES = prometheus_client.Counter(
    'nova_rt_conductor_changes',
    'Changes of running reservations that have ended, by their result.',
    ['result'],
)
CHANGE_SECONDS = prometheus_client.Histogram(
    'nova_rt_conductor_change_seconds',
    'Time from the request for a change of a reservation to its end.',
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600),
)
PURGED = prometheus_client.Counter(
    'nova_rt_conductor_purged_rows', 'Events that were too old.'
)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class DatabaseUp(registry.Collector):
    """The state of the database, when it is asked for.

    :param ping: asks the database; raises if it does not answer
    """

    def __init__(self, ping: Callable[[], None]) -> None:
        self._ping = ping

    def collect(self) -> Iterable[core.Metric]:
        """Ask the database."""
        up = core.GaugeMetricFamily(
            'nova_rt_conductor_database_up', 'Whether the database answers.'
        )
        try:
            self._ping()
        except Exception:
            # The metric says so; the workers log why.
            up.add_metric([], 0)
        else:
            up.add_metric([], 1)
        return [up]


class OpenChanges(registry.Collector):
    """The age of the changes that have not ended, when it is asked for.

    :param read: asks the database for the oldest of each condition
    :param clock: says the time
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, datetime.datetime]],
        clock: Callable[[], datetime.datetime] = _now,
    ) -> None:
        self._read = read
        self._clock = clock

    def collect(self) -> Iterable[core.Metric]:
        """Ask the database."""
        found = core.GaugeMetricFamily(
            'nova_rt_conductor_open_change_seconds',
            'Time for which the oldest change that has not ended has been in '
            'its condition.',
            labels=['condition'],
        )
        try:
            oldest = self._read()
        except Exception:
            # DatabaseUp says so.
            oldest = {}
        for condition, since in oldest.items():
            age_s = (self._clock() - since).total_seconds()
            found.add_metric([condition], max(0, age_s))
        return [found]


def make_registry(
    ping: Callable[[], None],
    read_oldest: Callable[[], Mapping[str, datetime.datetime]],
) -> prometheus_client.CollectorRegistry:
    """Collect the counters of all workers, the database, and the version.

    :param ping: asks the database
    :param read_oldest: see :class:`OpenChanges`
    :returns: the registry to serve
    """
    found = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(found)  # type: ignore[no-untyped-call]
    found.register(DatabaseUp(ping))
    found.register(OpenChanges(read_oldest))
    found.register(Build())
    return found
