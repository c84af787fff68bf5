# SPDX-License-Identifier: Apache-2.0
"""The file of events that no conductor has confirmed, for the next start.

Each line is an event with the epoch that has numbered it.
"""

from collections.abc import Iterable, Mapping
import json
import pathlib
import threading

from oslo_log import log as logging

from nova_rt import exception
from nova_rt.compute import state_files
from nova_rt.formats import messages
from nova_rt.formats.reports import NewEvent

LOG = logging.getLogger(__name__)

Events = Mapping[int, Iterable[NewEvent]]


class Spool:
    """The file of a host. Any thread may call any method.

    An error of the file system is logged once: events are then kept in memory
    alone.

    :param path: see :func:`spool_path`
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._failing = False

    def read(self, most: int) -> dict[int, list[NewEvent]]:
        """Read the events of earlier starts; skip what cannot be read.

        :param most: of so many, the latest
        :returns: epoch -> events in their order
        """
        try:
            lines = self._path.read_text(errors='replace').splitlines()
        except FileNotFoundError:
            return {}
        except OSError as err:
            LOG.warning('Cannot read %s: %s', self._path, err)
            return {}
        found: dict[int, dict[int, NewEvent]] = {}
        skipped = 0
        for line in lines:
            try:
                epoch, event = _read_line(line)
            except (ValueError, TypeError, LookupError, RecursionError,
                    exception.InvalidReport):  # fmt: skip
                # The last one is half a line if the host lost its power.
                skipped += 1
            else:
                found.setdefault(epoch, {})[event.seq] = event
        if skipped:
            LOG.warning('%s has %d lines that cannot be read', self._path,
                        skipped)  # fmt: skip
        every = sorted((epoch, seq) for epoch in found for seq in found[epoch])
        kept: dict[int, list[NewEvent]] = {}
        for epoch, seq in every[-most:]:
            kept.setdefault(epoch, []).append(found[epoch][seq])
        return kept

    def append(self, epoch: int, events: Iterable[NewEvent]) -> None:
        """Add events at the end of the file."""
        text = ''.join(_write_line(epoch, each) for each in events)
        if not text:
            return
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open('a') as file:
                    file.write(text)
            except OSError as err:
                self._note_failure(err)
            else:
                self._failing = False

    def replace(self, events: Events) -> None:
        """Keep these events and no others."""
        text = ''.join(
            _write_line(epoch, each)
            for epoch, some in events.items()
            for each in some
        )
        with self._lock:
            try:
                if text:
                    state_files.replace(self._path, text)
                else:
                    self._path.unlink(missing_ok=True)
            except OSError as err:
                self._note_failure(err)
            else:
                self._failing = False

    def _note_failure(self, err: OSError) -> None:
        if not self._failing:
            LOG.warning(
                'Cannot write %s: %s. A restart of this service loses events '
                'that no conductor has taken.', self._path, err,
            )  # fmt: skip
        self._failing = True


def _write_line(epoch: int, event: NewEvent) -> str:
    (made,) = messages.write_events([event])['events']
    return json.dumps({'epoch': epoch, **made}) + '\n'


def _read_line(line: str) -> tuple[int, NewEvent]:
    made = dict(json.loads(line))
    epoch = messages.read_number('epoch', made.pop('epoch'))
    (event,), _ = messages.read_events(
        {'v': messages.VERSION, 'dropped': 0, 'events': [made]}
    )
    return epoch, event


def spool_path(state_path: str, host: str) -> pathlib.Path:
    """Name the file of a host.

    :param state_path: Nova's
    :param host: name of this host
    :returns: a file that two hosts of one directory do not share
    """
    return state_files.find(state_path, 'events', host)
