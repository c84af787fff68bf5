# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver, which gets over a libvirtd that ends and comes back.

Debian's libvirtd ends itself when it is idle, and an operator may restart it.
With native threads, Nova 34 does not always find its way back:

* libvirt reports a closed connection in the thread that notices it. Where
  that is the thread that tests the connection (``Host._get_connection()``),
  the report (``Host._connection_closed()``) asks for the lock that this
  thread holds, and every later operation on the host waits for it, for ever.
* A report of a former connection, which arrives when there is a new one,
  disables the host until nova-compute is started again.
"""

import threading

from nova.virt.libvirt import driver
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class ReconnectingDriver(driver.LibvirtDriver):
    """A LibvirtDriver that connects to libvirt again, whatever happens."""

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        # Both of its users leave the state right when one runs in the other:
        # the inner one drops the connection that the outer one drops.
        self._host._wrapped_conn_lock = threading.RLock()

    def _handle_conn_event(self, enabled, reason):
        """Enable or disable this host, as its connection was opened or lost.

        Nova forgets a lost connection before it reports it: if there is one
        now, it is newer than the report.
        """
        if not enabled and self._host._wrapped_conn is not None:
            LOG.info(
                'libvirt: ignored the end of a former connection: %s', reason
            )
            return
        super()._handle_conn_event(enabled, reason)
