# SPDX-License-Identifier: Apache-2.0
"""Metrics of a conductor, for Prometheus.

Counters are those of one process, or of all workers together where
``PROMETHEUS_MULTIPROC_DIR`` names a directory before this is imported.
"""

from collections.abc import Callable, Iterable
import datetime

import prometheus_client
from prometheus_client import core, multiprocess, registry

from nova_rt.metrics.build import Build

#: Reads the name of each host, and when it has reported last.
Reports = Callable[[], list[tuple[str, datetime.datetime]]]

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
    'them again.',
    ['method'],
)
UPKEEP_FAILED = prometheus_client.Counter(
    'nova_rt_conductor_failed_upkeeps',
    'Failed runs of the deletion of expired rows.',
)
PURGED = prometheus_client.Counter(
    'nova_rt_conductor_purged_rows', 'Rows that were too old.'
)


class Ages(registry.Collector):
    """The age of the last report of each host, when it is asked for.

    :param list_reports: what it raises makes the metric absent
    """

    def __init__(self, list_reports: Reports) -> None:
        self._list_reports = list_reports

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
            for name, at in self._list_reports():
                age = (now - at).total_seconds()
                ages.add_metric([name], max(0.0, age))
        except Exception:
            # Whatever it is: the metric says so, the workers log why.
            up.add_metric([], 0)
            return [up]
        up.add_metric([], 1)
        return [up, ages]


def make_registry(
    list_reports: Reports,
) -> prometheus_client.CollectorRegistry:
    """Collect the counters of all workers, ages of reports, and the version.

    :param list_reports: reads when hosts have reported
    :returns: the registry to serve
    """
    found = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(found)  # type: ignore[no-untyped-call]
    found.register(Ages(list_reports))
    found.register(Build())
    return found
