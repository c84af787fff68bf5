# SPDX-License-Identifier: Apache-2.0
"""Protection of the host and other containers from a container's root.

The groups of the container are given to the host's root, since its own root
could widen its CPUs onto those of others. Its user namespace gets limits,
since the kernel charges its objects to the host's root. It gets a limit of
tasks, since all containers share the process IDs of the host. An unprotected
container is not started; a running one is reported, and the next check tries
again.

For the container's own benefit, its libvirt_lxc is kept from the out-of-memory
killer. Where that cannot be done, it runs without.
"""

from collections.abc import Callable, Collection, Iterator
import contextlib

from oslo_log import log as logging

from nova_rt import exception, faults
from nova_rt.host import host as rt_host
from nova_rt.host.files import Files
from nova_rt.lxc import domains, flavors
from nova_rt.lxc.domains import Domains
from nova_rt.tracking.stop_policy import StopPolicy

LOG = logging.getLogger(__name__)


class Protection:
    """The protection of one host; all methods are thread-safe.

    :ivar limits: whether containers have user namespaces, with limits of
        their own
    :ivar max_tasks: the limit for flavors without one; 0 for no limit
    """

    def __init__(
        self, host: rt_host.Host, domains: Domains, stop_policy: StopPolicy
    ) -> None:
        self.limits = False
        self.max_tasks = 0
        self._files = Files()
        self._host = host
        self._domains = domains
        self._verdicts = stop_policy
        #: UUID -> process of the container that has its limits.
        self._limited: dict[str, int] = {}
        #: Errors that were logged: they are the same for all containers.
        self._oom_errors: set[int | None] = set()

    def protect(self, uuid: str, stop: Callable[[], None]) -> None:
        """Protect a container that was just started without a reservation.

        :param stop: stops the container; called if it cannot be protected
        :raises HostNotPrepared: in that case
        """
        try:
            started = self._domains.find_running(uuid)
            if started is not None:
                with _naming('take the groups of the container from its root'):
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
                'cannot restrict the root user of the container: '
                f'{faults.describe(err)}'
            ) from err

    def protect_again(self, uuid: str, pid: int) -> None:
        """Protect a running container, and never stop it.

        :param pid: its libvirt_lxc process
        """
        try:
            with _naming('take the groups of the container from its root'):
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

    def limit(self, uuid: str, pid: int, priority: int | None = None) -> None:
        """Limit the tasks and the user namespace of a container, once.

        Its root cannot raise the limits again.

        :param pid: its libvirt_lxc process
        :param priority: the highest real-time priority that its programs may
            take themselves, if any
        :raises HostNotPrepared: if that cannot be done
        """
        if self._limited.get(uuid) == pid:
            return
        if self.limits:
            with _naming('limit the user namespace of the container'):
                self._files.limit(pid)
            self._keep_from_oom(uuid, pid)
            if priority is not None:
                with _naming('let programs of the container set priorities'):
                    self._files.allow_priority(pid, priority)
        guest = self._domains.find(uuid)
        most = self.max_tasks
        if guest is not None:
            most = flavors.read_max_tasks(guest, self.max_tasks)
        if most:
            with _naming('limit the tasks of the container'):
                self._host.limit_tasks(pid, most)
        self._limited[uuid] = pid

    def _keep_from_oom(self, uuid: str, pid: int) -> None:
        try:
            self._files.keep_from_oom(pid)
        except OSError as err:
            # A host that does not permit it does so for no container.
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
    """Turn errors of the kernel into errors of this host's set-up.

    :param what: the operation, such as ``limit the tasks``
    :raises HostNotPrepared: with the failed operation and its errno
    """
    try:
        yield
    except OSError as err:
        raise exception.HostNotPrepared(
            f'cannot {what}: {faults.describe(err)}'
        ) from err
