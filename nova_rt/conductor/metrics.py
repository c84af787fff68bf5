# SPDX-License-Identifier: Apache-2.0
"""Metrics of a conductor, for Prometheus.

Counters are those of one process, or of all workers together where
``PROMETHEUS_MULTIPROC_DIR`` names a directory before this is imported.
"""

from collections.abc import Callable, Iterable

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


def make_registry(
    ping: Callable[[], None],
) -> prometheus_client.CollectorRegistry:
    """Collect the counters of all workers, the database, and the version.

    :param ping: asks the database
    :returns: the registry to serve
    """
    found = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(found)  # type: ignore[no-untyped-call]
    found.register(DatabaseUp(ping))
    found.register(Build())
    return found
