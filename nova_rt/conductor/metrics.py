# SPDX-License-Identifier: Apache-2.0
"""Metrics of a conductor, for Prometheus.

Counters are those of one process, or of all workers together where
``PROMETHEUS_MULTIPROC_DIR`` names a directory before this is imported.
"""

from collections.abc import Callable, Iterable
import datetime

import prometheus_client
from prometheus_client import core, multiprocess, registry

from nova_rt.db.objects import Host

REPORTS = prometheus_client.Counter(
    'nova_rt_conductor_reports',
    'Reports of computes that were taken, by method.',
    ['method'],
)
REFUSED = prometheus_client.Counter(
    'nova_rt_conductor_refused_reports',
    'Reports that could not be read, by method.',
    ['method'],
)
FAILED = prometheus_client.Counter(
    'nova_rt_conductor_failed_reports',
    'Reports that the database did not take, by method. The compute sends '
    'events and state again; samples are lost.',
    ['method'],
)
UPKEEP_FAILED = prometheus_client.Counter(
    'nova_rt_conductor_failed_upkeeps',
    'Runs of summing up and purging that failed.',
)
PURGED = prometheus_client.Counter(
    'nova_rt_conductor_purged_rows', 'Rows that were too old.'
)


class Ages(registry.Collector):
    """The age of the last report of each host, when it is asked for.

    :param list_hosts: reads the hosts; what it raises makes the metric absent
    """

    def __init__(self, list_hosts: Callable[[], list[Host]]) -> None:
        self._list_hosts = list_hosts

    def collect(self) -> Iterable[core.Metric]:
        """Read the database."""
        up = core.GaugeMetricFamily(
            'nova_rt_conductor_database_up', 'Whether the database answers.'
        )
        ages = core.GaugeMetricFamily(
            'nova_rt_conductor_report_age_seconds',
            'Age of the last state that a host has reported.',
            labels=['host'],
        )
        now = datetime.datetime.now(datetime.UTC)
        try:
            for host in self._list_hosts():
                age = (now - host.last_report_at).total_seconds()
                ages.add_metric([host.name], max(0.0, age))
        except Exception:
            # Whatever it is: the metric says so, the workers log why.
            up.add_metric([], 0)
            return [up]
        up.add_metric([], 1)
        return [up, ages]


def make_registry(
    list_hosts: Callable[[], list[Host]],
) -> prometheus_client.CollectorRegistry:
    """Collect the counters of all workers, and the ages of reports.

    :param list_hosts: reads the hosts
    :returns: the registry to serve
    """
    found = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(found)  # type: ignore[no-untyped-call]
    found.register(Ages(list_hosts))
    return found
