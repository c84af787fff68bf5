# SPDX-License-Identifier: Apache-2.0
"""The policy for stopping containers that lack their reservation.

A running container is stopped only after two refusals by the kernel: at two
checks it did not have its reservation, and the kernel refused to give it one.
A single check may fail for a transient reason, such as bandwidth of a removed
group that the kernel has not released yet. The number of stops per minute is
limited, too: a cause that affects all containers is no fault of any of them,
and the operator has time to act.
"""

import collections
from collections.abc import Callable, Collection
import threading
import time

#: Seconds after the first verdict from which a second one counts; the kernel
#: releases bandwidth within two seconds.
CONFIRM_S = 10.0

#: Seconds over which stops are counted.
WINDOW_S = 60.0


class StopPolicy:
    """Failed checks and stops of containers; all methods are thread-safe.

    :param max_stops: containers that may be stopped within a minute
    :param clock: seconds, never set back
    """

    def __init__(
        self, max_stops: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_stops = max_stops
        self._clock = clock
        self._lock = threading.Lock()
        #: By UUID: process of the container, and time of its first refusal.
        self._refused: dict[str, tuple[int, float]] = {}
        #: By UUID and kind: the last report.
        self._told: dict[str, dict[str, str]] = {}
        self._stops: collections.deque[float] = collections.deque()

    def is_news(self, uuid: str, kind: str, text: str) -> bool:
        """Record a report on a container.

        :param kind: the kind of the report
        :returns: whether it differs from the last report of this kind
        """
        with self._lock:
            told = self._told.setdefault(uuid, {})
            news = told.get(kind) != text
            told[kind] = text
            return news

    def confirm(self, uuid: str, pid: int) -> bool:
        """Record a refusal of the kernel to hold a container's reservation.

        :param pid: the container's libvirt_lxc process
        :returns: whether it confirms an earlier refusal
        """
        now = self._clock()
        with self._lock:
            seen = self._refused.get(uuid)
            if seen is None or seen[0] != pid:
                self._refused[uuid] = pid, now
                return False
            return now - seen[1] >= CONFIRM_S

    def take_stop(self) -> bool:
        """Use up one of the stops allowed per minute.

        :returns: False if none is left
        """
        now = self._clock()
        with self._lock:
            while self._stops and now - self._stops[0] >= WINDOW_S:
                self._stops.popleft()
            if len(self._stops) >= self._max_stops:
                return False
            self._stops.append(now)
            return True

    def forget(self, uuid: str, but: str = '') -> None:
        """Clear the recorded failures of a healthy or stopped container.

        :param but: kind of a report to keep
        """
        with self._lock:
            self._refused.pop(uuid, None)
            told = self._told.pop(uuid, {})
            if but in told:
                self._told[uuid] = {but: told[but]}

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Clear the recorded failures of all other containers."""
        with self._lock:
            known = self._refused.keys() | self._told.keys()
        for uuid in known - set(uuids):
            self.forget(uuid)
