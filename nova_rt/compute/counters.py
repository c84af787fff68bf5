# SPDX-License-Identifier: Apache-2.0
"""Keeps the file in which nova-rt-exporter finds counts and options."""

import dataclasses
import pathlib
import threading
import time

from oslo_log import log as logging

from nova_rt import events
from nova_rt.compute import state_files
from nova_rt.formats import counts
from nova_rt.host.options import Options

LOG = logging.getLogger(__name__)

#: The file is written at least and at most this often, seconds. Its age says
#: whether the service is alive.
_AT_LEAST_S = 60.0
_AT_MOST_S = 2.0
#: Seconds for the last writing: Nova leaves 20 to everything that ends.
_LAST_S = 5.0


class Counters:
    """A listener that counts events, over restarts of the service.

    It only counts. A thread of its own writes, so that a disk that hangs
    holds up nobody.

    :param path: the file; its directory is made if it is not there
    :param options: that decide the offer of this host
    :param verifies: whether this service verifies servers
    """

    def __init__(
        self, path: pathlib.Path, options: Options, verifies: bool = True
    ) -> None:
        self._path = path
        self._verifies = verifies
        self._lock = threading.Lock()
        self._counts = counts.Counts(host=options.to_dict())
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name='nova_rt-counters', daemon=True
        )
        self._failing = False

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        with self._lock:
            self._counts = self._counts.add(event)
        self._changed.set()

    def note_dropped(self, number: int) -> None:
        """Note that so many events will be missing in the history."""
        with self._lock:
            self._counts = dataclasses.replace(
                self._counts, dropped=self._counts.dropped + number
            )
        self._changed.set()

    def note_adaptation(self, result: counts.Adaptation) -> None:
        """Count an adaptation; written with the next event, or minute."""
        with self._lock:
            self._counts = self._counts.add_adaptation(result)

    def note_frozen(self, number: int) -> None:
        """Note the number of servers that do not follow their load."""
        with self._lock:
            if number == self._counts.frozen:
                return
            self._counts = dataclasses.replace(self._counts, frozen=number)
        self._changed.set()

    def note_verified(self) -> None:
        """Note that all servers have been verified."""
        with self._lock:
            self._counts = dataclasses.replace(
                self._counts, verified_at=int(time.time())
            )

    def start(self) -> None:
        """Restore the counts from the file, and keep it from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Write the last counts, and no more after them.

        Wait for it, but not for a disk that hangs: the process ends next.
        """
        self._stopped.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_S)

    def _run(self) -> None:
        self._load()
        while True:
            self._changed.clear()
            self._save()
            if self._stopped.wait(_AT_MOST_S):
                break
            self._changed.wait(_AT_LEAST_S)
        self._save()

    def _load(self) -> None:
        try:
            text = self._path.read_text(encoding='ascii')
            before = counts.Counts.decode(text)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as err:
            LOG.warning('Counting from 0: cannot read %s: %s', self._path, err)
            return
        if not self._verifies:
            # Nothing would renew it, and its age raises an alert.
            before = dataclasses.replace(before, verified_at=0)
        with self._lock:
            self._counts = before.plus(self._counts)

    def _save(self) -> None:
        with self._lock:
            text = self._counts.encode()
        try:
            state_files.replace(self._path, text, 0o644)
        except OSError as err:
            if not self._failing:
                LOG.warning(
                    'Cannot write the file that nova-rt-exporter reads: %s; '
                    'trying again, this is not repeated', err,
                )  # fmt: skip
            self._failing = True
            return
        self._failing = False
