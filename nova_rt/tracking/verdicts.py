# SPDX-License-Identifier: Apache-2.0
"""Findings of checks on running containers, until they are well again.

A container that runs is stopped on the kernel's word alone: at two checks it
did not have its reservation, and the kernel refused to give it that. A single
check might meet a bad moment, such as bandwidth on its way back from a group
that was removed. And few are stopped at a time: a cause that makes the kernel
refuse all containers is no fault of any of them, and the operator has time to
act.
"""

import collections
from collections.abc import Callable, Collection
import threading
import time

#: A second verdict on a container counts this long after the first one; the
#: kernel gives bandwidth back within two seconds.
CONFIRM_S = 10.0

#: Over this time stops are counted.
WINDOW_S = 60.0


class Verdicts:
    """Containers that are not well. Any thread may call any method.

    :param max_stops: containers that may be stopped within a minute
    :param clock: seconds, never set back
    """

    def __init__(
        self, max_stops: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_stops = max_stops
        self._clock = clock
        self._lock = threading.Lock()
        #: By UUID: process of the container, and when it was refused first.
        self._refused: dict[str, tuple[int, float]] = {}
        #: By UUID and kind: what was reported last.
        self._told: dict[str, dict[str, str]] = {}
        self._stops: collections.deque[float] = collections.deque()

    def is_news(self, uuid: str, kind: str, text: str) -> bool:
        """Note that something of a container is reported.

        :param kind: of what is reported
        :returns: whether it was something else before, or nothing
        """
        with self._lock:
            told = self._told.setdefault(uuid, {})
            news = told.get(kind) != text
            told[kind] = text
            return news

    def confirm(self, uuid: str, pid: int) -> bool:
        """Note a verdict of the kernel on a container.

        :param pid: the container's libvirt_lxc process
        :returns: whether it is the second one
        """
        now = self._clock()
        with self._lock:
            seen = self._refused.get(uuid)
            if seen is None or seen[0] != pid:
                self._refused[uuid] = pid, now
                return False
            return now - seen[1] >= CONFIRM_S

    def take_stop(self) -> bool:
        """Take one of the stops that are allowed now.

        :returns: False if there is none left
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
        """Note that a container is well, or does not run.

        :param but: kind of report that still holds
        """
        with self._lock:
            self._refused.pop(uuid, None)
            told = self._told.pop(uuid, {})
            if but in told:
                self._told[uuid] = {but: told[but]}

    def forget_all_but(self, uuids: Collection[str]) -> None:
        """Note which containers there are."""
        with self._lock:
            known = self._refused.keys() | self._told.keys()
        for uuid in known - set(uuids):
            self.forget(uuid)
