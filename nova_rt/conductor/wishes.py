# SPDX-License-Identifier: Apache-2.0
"""Requests for changes of reservations: stored, and told to a conductor.

The database has the wish, and conductors look for it: a message bus that is
away delays a change and loses nothing.
"""

import threading
import uuid

from oslo_config import cfg
from oslo_log import log as logging

from nova_rt.conductor import queue
from nova_rt.db import changes
from nova_rt.formats.changes import WAKE, Change

LOG = logging.getLogger(__name__)


class Wishes:
    """The requests of one program.

    :param conf: the configuration
    :param program: its name
    """

    def __init__(self, conf: cfg.ConfigOpts, program: str) -> None:
        self._conf = conf
        self._program = program
        self._sender: queue.Sender | None = None
        self._lock = threading.Lock()

    def add(self, wanted: Change, known: int | None) -> Change:
        """Store the wish for a change, and wake a conductor.

        :param known: the generation that the caller has seen, if any
        :returns: the change as it was stored
        :raises GenerationConflict: if there is another generation by now
        """
        change = changes.ask(wanted, known)
        try:
            with self._lock:
                self._sender = self._sender or queue.Sender(self._conf)
            self._sender.send(str(uuid.uuid4()), self._program, WAKE, {})
        except Exception as err:
            # Of the driver, which has many.
            LOG.warning(
                'No conductor could be woken (%s): they find the change by '
                'themselves', err, extra={'instance_uuid': change.server},
            )  # fmt: skip
        return change
