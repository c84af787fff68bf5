# SPDX-License-Identifier: Apache-2.0
"""Protection of the host and of others from the root of a container.

Its groups are given to the host's root, since it could widen its CPUs onto
those of others, its user namespace gets limits, since the kernel charges what
it makes to the host's root, and it gets a limit of tasks, since all containers
share the process IDs of the host. A container that cannot be protected is not
started; one that runs is reported, and tried again at the next check.

One thing is for the container's own good: its libvirt_lxc is kept from the
out-of-memory killer. Where that cannot be done, it runs without.
"""

from collections.abc import Callable, Collection, Iterator
import contextlib

from oslo_log import log as logging

from nova_rt import exception, faults
from nova_rt.host import host as rt_host
from nova_rt.host import limits
from nova_rt.lxc import domains, flavors
from nova_rt.lxc.domains import Domains
from nova_rt.tracking.verdicts import Verdicts

LOG = logging.getLogger(__name__)


class Protection:
    """Protects the containers of one host. Any thread may call any method.

    :ivar limits: whether containers have user namespaces, with limits of
        their own
    :ivar max_tasks: of a container whose flavor says nothing; 0 for no limit
    """

    def __init__(
        self, host: rt_host.Host, domains: Domains, verdicts: Verdicts
    ) -> None:
        self.limits = False
        self.max_tasks = 0
        self._host = host
        self._domains = domains
        self._verdicts = verdicts
        #: UUID -> process of the container that has its limits.
        self._limited: dict[str, int] = {}
        #: Errors that were logged: whether a host permits it does not change.
        self._oom_errors: set[int | None] = set()

    def protect(self, uuid: str, stop: Callable[[], None]) -> None:
        """Protect a container that was just started without a reservation.

        :param stop: stops the container; called if that cannot be done
        :raises HostNotPrepared: if so
        """
        try:
            started = self._domains.find_running(uuid)
            if started is not None:
                with _naming('take its groups from its root'):
                    self._host.take_groups(started.id)
                self.limit(uuid, started.id)
        except (exception.HostNotPrepared, *domains.ERRORS) as err:
            if (
                isinstance(err, exception.HostNotPrepared)
                and self._domains.find_running(uuid) is None
            ):
                return  # It has ended by itself.
            stop()
            if isinstance(err, exception.HostNotPrepared):
                raise
            raise exception.HostNotPrepared(
                f'cannot protect it from its root: {faults.describe(err)}'
            ) from err

    def protect_again(self, uuid: str, pid: int) -> None:
        """Do the same for one that runs, and stop nothing.

        :param pid: its libvirt_lxc process
        """
        try:
            with _naming('take its groups from its root'):
                self._host.take_groups(pid)
            self.limit(uuid, pid)
        except exception.HostNotPrepared as err:
            reason = str(err)
            if self._domains.runs(uuid, pid) and self._verdicts.is_news(
                uuid, 'unprotected', reason
            ):
                LOG.error(
                    'Could not protect the host from this container: %s',
                    reason, instance_uuid=uuid,
                )  # fmt: skip

    def limit(self, uuid: str, pid: int) -> None:
        """Limit the tasks and the user namespace of a container, once.

        Its root cannot raise the limits again.

        :param pid: its libvirt_lxc process
        :raises HostNotPrepared: if that cannot be done
        """
        if self._limited.get(uuid) == pid:
            return
        if self.limits:
            with _naming('limit what it takes from the root of this host'):
                limits.put_on(pid)
            self._keep_from_oom(uuid, pid)
        guest = self._domains.find(uuid)
        most = self.max_tasks
        if guest is not None:
            most = flavors.read_max_tasks(guest, self.max_tasks)
        if most:
            with _naming('limit how many tasks it has'):
                self._host.limit_tasks(pid, most)
        self._limited[uuid] = pid

    def _keep_from_oom(self, uuid: str, pid: int) -> None:
        try:
            limits.keep_from_oom(pid)
        except OSError as err:
            # A host that does not permit it does so for none.
            if err.errno not in self._oom_errors:
                self._oom_errors.add(err.errno)
                LOG.warning(
                    'Cannot keep libvirt_lxc from the out-of-memory killer, '
                    'which may end a server that has used up its memory: %s. '
                    'It takes CAP_SYS_RESOURCE; this is logged once',
                    faults.describe(err), instance_uuid=uuid,
                )  # fmt: skip

    def forget(self, uuid: str) -> None:
        """Forget a container that has ended."""
        self._limited.pop(uuid, None)

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Forget the containers that have ended."""
        for uuid in self._limited.keys() - set(uuids):
            self.forget(uuid)


@contextlib.contextmanager
def _naming(what: str) -> Iterator[None]:
    """Within, an error of the kernel becomes one of this host's set-up.

    :raises HostNotPrepared: with what could not be done, and its errno
    """
    try:
        yield
    except OSError as err:
        raise exception.HostNotPrepared(
            f'cannot {what}: {faults.describe(err)}'
        ) from err
