# SPDX-License-Identifier: Apache-2.0
"""The running containers that have been given their scheduling policy.

Each container is given it once: later its programs may choose another one,
and make themselves ordinary, which is no business of a check.
"""

from collections.abc import Collection
import threading

from oslo_log import log as logging

from nova_rt import events
from nova_rt.host import host as rt_host
from nova_rt.reservation import record

LOG = logging.getLogger(__name__)


class Policies:
    """Containers that have their policy. Any thread may call any method.

    :param dispatcher: where it is emitted that one was given it late
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
        """Note that a container was given its policy.

        :param pid: the container's libvirt_lxc process
        """
        with self._lock:
            self._given[uuid] = pid

    def forget(self, uuid: str) -> None:
        """Note that a container may lose its policy while it is repaired."""
        with self._lock:
            self._given.pop(uuid, None)

    def see_to(self, uuid: str, pid: int, rec: record.Record) -> None:
        """Give a container its policy if it may never have had it.

        That is so if an earlier process of this service has started it: it
        may have ended before it gave the policy.

        :param pid: the container's libvirt_lxc process
        :raises OSError: with the kernel's errno
        """
        with self._lock:
            if self._given.get(uuid) == pid:
                return
        if self._host.give_missing_policy(pid, rec):
            LOG.info(
                'None of its tasks was real-time: gave them the policy %s %d',
                rec.request.policy, rec.request.priority, instance_uuid=uuid,
            )  # fmt: skip
            self._dispatcher.emit(events.Promoted(uuid))
        self.note(uuid, pid)

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Note which containers there are."""
        with self._lock:
            for uuid in self._given.keys() - set(uuids):
                del self._given[uuid]
