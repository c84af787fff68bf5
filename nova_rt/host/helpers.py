# SPDX-License-Identifier: Apache-2.0
"""The privileged helpers, started on demand.

Each is a process of 40 MiB with its imports. It works only while servers
start, end or are repaired, so an idle helper is ended, and the next call
starts it again.
"""

from collections.abc import Callable
import errno
import logging
import shlex
import threading
from time import monotonic
from typing import Any

from oslo_privsep import daemon, priv_context

from nova_rt import exception
import nova_rt.privsep

LOG = logging.getLogger(__name__)

#: Seconds without a call after which a helper may be ended.
IDLE_S = 60.0


class Helper:
    """A privileged helper of this process; its methods are thread-safe.

    :param context: its privileged context
    :param task: its task, as words for messages
    """

    def __init__(self, context: priv_context.PrivContext, task: str) -> None:
        self._context = context
        self._task = task
        self._lock = threading.Lock()
        self._calls = 0
        self._last_s = monotonic()

    def call(self, function: Callable[..., Any], *args: object) -> Any:
        """Call a privileged function in the helper.

        :param function: an entry point of the context
        :returns: its answer
        :raises OSError: with the kernel's errno; EPERM if no helper starts
        """
        with self._lock:
            self._calls += 1
        try:
            self._start()
            return function(*args)
        finally:
            with self._lock:
                self._calls -= 1
                self._last_s = monotonic()

    def end_if_idle(self) -> None:
        """End the helper if nothing has called it for :data:`IDLE_S`."""
        with self._lock:
            idle_s = monotonic() - self._last_s
            if self._calls or idle_s < IDLE_S:
                return
            if self._context.client_mode and self._context.channel is not None:
                LOG.debug('Ending the privileged helper %s', self._task)
                self._context.stop()

    def check(self, function: Callable[..., None], *args: object) -> None:
        """Require that the helper starts and answers a call.

        :param function: makes the call
        :raises HostNotPrepared: if not, with the command that must be
            allowed; of EINVAL, with its text alone
        """
        try:
            function(*args)
        except Exception as err:
            if isinstance(err, OSError) and err.errno == errno.EINVAL:
                raise exception.HostNotPrepared(str(err.strerror)) from err
            # Any error, also one of oslo.privsep: without a helper, no
            # container of this host can be given a reservation.
            raise self._no_answer(err) from err

    def _start(self) -> None:
        """Start the helper unless it runs.

        This precedes the call itself, so that a missing program is not taken
        for a missing group.

        :raises OSError: EPERM if it does not start
        """
        if not self._context.client_mode or self._context.channel is not None:
            return
        try:
            self._context.start()
        except (OSError, daemon.FailedToDropPrivileges) as err:
            raise PermissionError(
                errno.EPERM, f'the privileged helper does not start: {err}'
            ) from err

    def _no_answer(self, err: Exception) -> exception.HostNotPrepared:
        section = self._context.cfg_section
        # Its socket is another each time.
        command = shlex.join(self._context.helper_command('SOCKET'))
        return exception.HostNotPrepared(
            f'the privileged helper {self._task} does not answer ({err}): the '
            f'user of this service must be allowed to run "{command}". '
            'Install etc/nova_rt/sudoers.d/nova-rt of this release as '
            f'/etc/sudoers.d/nova-rt, or correct [{section}] helper_command; '
            '"sudo -n -l", run as that user, lists what is allowed. Running '
            'servers are left as they are'
        )


#: One of each in a process, shared by all callers.
GROUPS = Helper(nova_rt.privsep.rt_pctxt, 'for control groups')
MOUNTS = Helper(nova_rt.privsep.mount_pctxt, 'that mounts')


def end_idle() -> None:
    """End the helpers that nothing has called for :data:`IDLE_S`."""
    for helper in (GROUPS, MOUNTS):
        helper.end_if_idle()
