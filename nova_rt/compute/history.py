# SPDX-License-Identifier: Apache-2.0
"""Sends notifications of events to the history, in a thread of its own.

Nothing waits for it. While the message bus is away, notifications wait in
memory, up to a bound; dropped ones are counted and logged. As soon as the
bus has one, it is safe there.
"""

import collections
from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

from nova_rt.compute.notifications import Notice
from nova_rt.conductor.queue import Sender

LOG = logging.getLogger(__name__)

#: Notifications that may wait. A host has some hundred on a busy day.
MOST = 10_000
#: Seconds to send the rest as the service ends. Nova leaves 20 to everything
#: that ends.
LAST_S = 5.0
#: Seconds between two attempts.
_PAUSE_S = 5.0


class History:
    """A channel of :class:`.notifications.Announcer`.

    :param sender: puts one notification into the queue
    :param note_dropped: called with the number of those that are lost
    :param pause_s: between two attempts to send one
    """

    def __init__(
        self,
        sender: Sender,
        note_dropped: Callable[[int], None],
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._sender = sender
        self._note_dropped = note_dropped
        self._pause_s = pause_s
        self._changed = threading.Condition()
        self._waiting: collections.deque[Notice] = collections.deque()
        self._stopping = self._full = self._failing = False
        self._thread = threading.Thread(
            target=self._run, name='nova_rt-history', daemon=True
        )

    def __call__(self, notice: Notice) -> None:
        """Take a notification; drop the oldest of too many."""
        first = False
        with self._changed:
            self._waiting.append(notice)
            dropped = len(self._waiting) > MOST
            if dropped:
                self._waiting.popleft()
                first, self._full = not self._full, True
            self._changed.notify()
        if dropped:
            self._note_dropped(1)
        if first:
            LOG.error(
                'More than %d events wait for the message bus: the oldest are '
                'dropped and missing in the history', MOST,
            )  # fmt: skip

    def start(self) -> None:
        """Send from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Send the rest, for a bounded time, and drop all others."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(LAST_S)
        with self._changed:
            left = len(self._waiting)
            self._waiting.clear()
        if left:
            self._note_dropped(left)
            LOG.error(
                'The message bus has not taken %d events before this service '
                'ended: they are missing in the history', left,
            )  # fmt: skip

    def _run(self) -> None:
        while (notice := self._wait()) is not None:
            sent = self._send(notice)
            with self._changed:
                # It is another one if this was dropped meanwhile.
                if sent and self._waiting and self._waiting[0] is notice:
                    self._waiting.popleft()
                    self._full = self._full and len(self._waiting) >= MOST
            if not sent:
                self._pause()

    def _wait(self) -> Notice | None:
        """Wait for a notification.

        :returns: the oldest one; None if there is none as the service ends
        """
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            return self._waiting[0] if self._waiting else None

    def _pause(self) -> None:
        due_s = time.monotonic() + self._pause_s
        with self._changed:
            while not self._stopping:
                left_s = due_s - time.monotonic()
                if left_s <= 0:
                    return
                self._changed.wait(left_s)
        # Not a busy loop, for as long as stop() waits.
        time.sleep(min(self._pause_s, 0.2))

    def _send(self, notice: Notice) -> bool:
        try:
            self._sender.send(
                notice.id, notice.publisher, notice.event_type, notice.payload
            )
        except Exception as err:
            # Of the driver, which has many.
            if not self._failing:
                LOG.warning(
                    'Cannot send events to the history: %s. They are kept and '
                    'sent later; servers are not affected.', err,
                )  # fmt: skip
            self._failing = True
            return False
        if self._failing:
            LOG.info('Events are sent to the history again')
        self._failing = False
        return True
