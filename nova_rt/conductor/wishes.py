# SPDX-License-Identifier: Apache-2.0
"""Requests for changes of reservations: stored, and told to a conductor.

The database has the wish, and conductors look for it: a message bus that is
away delays a change and loses nothing.
"""

from collections.abc import Callable
import functools
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
    :param find_bus: finds the URL of the message bus of a host
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        program: str,
        find_bus: Callable[[str], str],
    ) -> None:
        self._program = program
        self._find_bus = find_bus
        self._make_sender = functools.cache(
            lambda url: queue.Sender(conf, url)
        )

    def add(self, wanted: Change, known: int | None) -> Change:
        """Store the wish for a change, and wake a conductor.

        :param known: the generation that the caller has seen, if any
        :returns: the change as it was stored
        :raises GenerationConflict: if there is another generation by now
        """
        change = changes.ask(wanted, known)
        try:
            # Other buses may have no conductor, and keep messages for one.
            sender = self._make_sender(self._find_bus(wanted.host))
            sender.send(str(uuid.uuid4()), self._program, WAKE, {})
        except Exception as err:
            # Of the driver, which has many, or of Nova's database.
            LOG.warning(
                'No conductor could be woken (%s): they find the change by '
                'themselves', err, extra={'instance_uuid': change.server},
            )  # fmt: skip
        return change
