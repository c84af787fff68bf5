# SPDX-License-Identifier: Apache-2.0
"""Events for listeners that are slow, out of the way of the emitter."""

import collections
from collections.abc import Callable
import threading
from typing import Any

from nova import thread_pool_factory
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Events that wait at most, by default. A host has some a minute.
_MOST = 1000


class QueuedListener:
    """A listener that hands events on, in their order, in another thread.

    There is a thread only while events wait. If the listener behind it does
    not come to an end, events are lost when too many wait, and the log says
    so once it has come to one.

    :param listener: is called with each event, or its notification, by one
        thread at a time
    :param most: events that may wait
    """

    def __init__(
        self, listener: Callable[[Any], None], most: int = _MOST
    ) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._waiting: collections.deque[Any] = collections.deque()
        self._most = most
        self._busy = False
        self._lost = 0

    def __call__(self, event: Any) -> None:
        """Take an event; returns at once."""
        with self._lock:
            if len(self._waiting) >= self._most:
                self._lost += 1
                return
            self._waiting.append(event)
            if self._busy:
                return
            self._busy = True
        try:
            thread_pool_factory.spawn(self._work)
        except Exception:
            with self._lock:
                self._busy = False
            raise

    def _work(self) -> None:
        while True:
            with self._lock:
                lost, self._lost = self._lost, 0
                if not self._waiting:
                    self._busy = False
                    return
                event = self._waiting.popleft()
            if lost:
                LOG.error('%d events were lost: %r did not keep up', lost,
                          self._listener)  # fmt: skip
            try:
                self._listener(event)
            except Exception:
                LOG.exception('%r failed to take %r', self._listener, event)
