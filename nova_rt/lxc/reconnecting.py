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

And libvirt 9 to 11 end themselves, on cgroup v2: to stop a container, libvirtd
sends SIGTERM to each number in ``cgroup.threads`` (src/util/vircgroup.c,
virCgroupKillInternal()). For a task that is just going, the kernel writes 0
there (kernel/cgroup/cgroup.c, cgroup_procs_show()), and kill(0) signals
libvirtd itself. So the end of a container is asked for again on the next
connection.

Under systemd, libvirt 9 has the container's scope stopped and then reads its
control group. systemd may have removed that by then: libvirt reports a failed
system call, and hears of the container's end a moment later.
"""

from collections.abc import Callable
import threading
import time
from typing import TypeVar

import libvirt
from nova import exception as nova_exception
from nova.virt.libvirt import driver
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Seconds before each further attempt. An ending libvirtd may still answer.
_AGAIN_S = (0.2, 1, 5)

#: Domains of a lost connection, as in Nova's own Host._test_connection().
_DOMAINS = (libvirt.VIR_FROM_REMOTE, libvirt.VIR_FROM_RPC)

_Result = TypeVar('_Result')


def _may_pass(err: BaseException | None) -> bool:
    """Tell whether an error may be gone at the next attempt.

    It, or its cause, is then the loss of the connection or a failed system
    call.
    """
    while err is not None:
        if isinstance(err, libvirt.libvirtError):
            code = err.get_error_code()
            return code == libvirt.VIR_ERR_SYSTEM_ERROR or (
                code == libvirt.VIR_ERR_INTERNAL_ERROR
                and err.get_error_domain() in _DOMAINS
            )
        err = err.__cause__ or err.__context__
    return False


def _repeat(step: Callable[[], _Result]) -> _Result:
    """Take a step again after an error that may pass."""
    for wait_s in _AGAIN_S:
        try:
            return step()
        except (libvirt.libvirtError, nova_exception.InternalError) as err:
            if not _may_pass(err):
                raise
            LOG.warning('libvirt: %s; trying again', err)
        time.sleep(wait_s)
    return step()


class ReconnectingDriver(driver.LibvirtDriver):
    """A LibvirtDriver that connects to libvirt again."""

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

    def _clean_shutdown(self, instance, timeout, retry_interval):
        """Shut a container down, whether libvirtd survives that or not."""
        step = super()._clean_shutdown
        return _repeat(lambda: step(instance, timeout, retry_interval))

    def _destroy(self, instance):
        """Destroy a container, whether libvirtd survives that or not."""
        step = super()._destroy
        return _repeat(lambda: step(instance))
