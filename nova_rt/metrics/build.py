# SPDX-License-Identifier: Apache-2.0
"""The version of a program, as a metric."""

from collections.abc import Iterable
import importlib.metadata

from prometheus_client import core, registry

_DISTRIBUTION = 'nova_rt'


class Build(registry.Collector):
    """``nova_rt_build_info``: which version runs; always 1."""

    def collect(self) -> Iterable[core.Metric]:
        """Read the version of the installed distribution."""
        found = core.GaugeMetricFamily(
            'nova_rt_build_info',
            'Version of nova_rt that serves these metrics; always 1.',
            labels=['version'],
        )
        try:
            version = importlib.metadata.version(_DISTRIBUTION)
        except importlib.metadata.PackageNotFoundError:
            version = 'unknown'  # Run from a source tree.
        found.add_metric([version], 1)
        return [found]
