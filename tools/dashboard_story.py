# SPDX-License-Identifier: Apache-2.0
"""Draws the dashboards of an hour that the tests have made up.

    python -m tools.dashboard_story DIRECTORY

It takes ``prometheus``. The story is in nova_rt/tests/fixtures/prometheus.py;
its hour is always the same, so that a picture changes only with a dashboard.
"""

import contextlib
import datetime
import pathlib
import sys

from nova_rt.tests.fixtures import prometheus
from tools import dashboards

#: In UTC, as the axes are.
_END = datetime.datetime(2026, 6, 1, 12, tzinfo=datetime.UTC)


def main() -> None:
    """Draw it."""
    end = int(_END.timestamp())
    with contextlib.ExitStack() as stack:
        story = stack.enter_context(prometheus.Story(end))
        running = stack.enter_context(prometheus.Prometheus(story.openmetrics))
        dashboards.draw(
            dashboards.Prometheus(running.url),
            pathlib.Path(sys.argv[1]),
            {'server': story.server, 'instance': story.FIRST},
            end - story.MINUTES * 60,
            end,
        )


if __name__ == '__main__':
    main()
