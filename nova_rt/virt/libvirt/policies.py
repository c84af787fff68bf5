# SPDX-License-Identifier: Apache-2.0
"""The running containers that have received their scheduling policy.

Each container receives it once: later its programs may choose another one, or
make themselves ordinary, and no check interferes.
"""

from collections.abc import Collection
import threading

from oslo_log import log as logging

from nova_rt import events
from nova_rt.host import host as rt_host
from nova_rt.reservation import record

LOG = logging.getLogger(__name__)


class Policies:
    """Containers with their policy; all methods are thread-safe.

    :param dispatcher: emits an event for a policy that was given late
    """

    def __init__(
        self, host: rt_host.Host, dispatcher: events.Dispatcher
    ) -> None:
        self._host = host
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        #: By UUID: process of the container.
        self._given: dict[str, int] = {}

    def note(self, uuid: str, pid: int) -> None:
        """Record that a container has received its policy.

        :param pid: the container's libvirt_lxc process
        """
        with self._lock:
            self._given[uuid] = pid

    def forget(self, uuid: str) -> None:
        """Forget a container that may lose its policy during a repair."""
        with self._lock:
            self._given.pop(uuid, None)

    def see_to(self, uuid: str, pid: int, rec: record.Record) -> None:
        """Give a container its policy if it may never have received it.

        An earlier process of this service may have started the container, and
        ended before it gave the policy.

        :param pid: the container's libvirt_lxc process
        :raises OSError: with the kernel's errno
        """
        with self._lock:
            if self._given.get(uuid) == pid:
                return
        if self._host.give_missing_policy(pid, rec):
            LOG.info(
                'Gave the tasks of this container the policy %s %d: none was '
                'real-time',
                rec.request.policy, rec.request.priority, instance_uuid=uuid,
            )  # fmt: skip
            self._dispatcher.emit(events.Promoted(uuid))
        self.note(uuid, pid)

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Forget all other containers."""
        with self._lock:
            for uuid in self._given.keys() - set(uuids):
                del self._given[uuid]
