# SPDX-License-Identifier: Apache-2.0
"""nova-rt-compute: nova-compute with our manager and driver."""

# First: it prepares the process for native threads.
from nova.cmd import compute  # isort: skip

import contextlib
import logging as stdlib_logging
import os
import sys
from typing import NoReturn

from nova import exception as nova_exception
from nova import service
from oslo_log import log as logging

from nova_rt.cmd import hooks

LOG = logging.getLogger(__name__)

BINARY = 'nova-compute'
MANAGER = 'nova_rt.compute.manager.RTComputeManager'


def main() -> None:
    """Run until stopped; exit with 1 if the service cannot start.

    To all others this is the host's nova-compute: it reads the same files
    and has the same entry in the services table.
    """
    sys.argv[0] = BINARY
    hooks.extend_nova_virt()
    service.SERVICE_MANAGERS[BINARY] = MANAGER
    try:
        compute.main()
        return
    except nova_exception.InvalidConfiguration as err:
        reason = str(err)
    except Exception:
        LOG.critical('nova-rt-compute has failed', exc_info=True)
        _exit(1)
    except SystemExit as err:
        _exit(err.code if isinstance(err.code, int) else 1)
    # Not above: there, oslo.log would add the error once more.
    LOG.critical('nova-rt-compute cannot start: %s', reason)
    _exit(1)


def _exit(status: int) -> NoReturn:
    """End now: threads that Nova has started would keep us alive."""
    # What --help has printed is still here if nobody reads along.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    stdlib_logging.shutdown()
    os._exit(status)


if __name__ == '__main__':
    main()
