# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-scheduler``: nova-scheduler with numbers in its refusals."""

# First: it prepares the process for native threads.
from nova.cmd import scheduler  # isort: skip

import os
import sys

from nova import service


def main() -> None:
    """Run nova-scheduler with our manager.

    Everything else is Nova's, the name too: configuration files, the
    services table and ``nova-manage`` know this program as nova-scheduler.
    """
    sys.argv[0] = os.path.join(os.path.dirname(sys.argv[0]), 'nova-scheduler')
    service.SERVICE_MANAGERS['nova-scheduler'] = (
        'nova_rt.scheduler.manager.RTSchedulerManager'
    )
    scheduler.main()
