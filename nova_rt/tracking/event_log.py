# SPDX-License-Identifier: Apache-2.0
"""Logging of the events of reservations in nova-compute."""

from collections.abc import Mapping

from oslo_log import log as logging

from nova_rt import events
from nova_rt.reservation import cpulist

LOG = logging.getLogger(__name__)

#: Type of event -> level and text; ``has`` is the reservation.
_TEXTS: Mapping[type[events.Event], tuple[int, str]] = {
    events.Claimed: (
        logging.INFO, 'Claimed {has.ppm} ppm ({has}) on CPU {cpus}',
    ),
    events.Added: (
        logging.INFO, 'Claimed another {has.ppm} ppm ({has}) on CPU {cpus}, '
        'for a resize',
    ),
    events.Changed: (
        logging.INFO, 'Changed reservation from {event.before} to {has} on '
        'CPU {cpus}',
    ),
    events.Frozen: (
        logging.WARNING, 'The reservation does not follow the load: '
        '{event.reason}',
    ),
    events.Applied: (
        logging.INFO, 'Applied reservation {has} on CPU {cpus}',
    ),
    events.Drifted: (
        logging.ERROR, 'Reservation not held: {event.difference}; applying it '
        'again',
    ),
    events.Repaired: (
        logging.INFO, 'Repaired reservation {has} on CPU {cpus}; repair '
        '{repairs} since the start of this service',
    ),
    events.Stopped: (
        logging.ERROR, 'Stopping this container: its reservation is not '
        'held: {event.reason}',
    ),
    events.Unverified: (
        logging.ERROR, 'Cannot verify or repair the reservation: '
        '{event.reason}; the container runs on, and each check tries again',
    ),
    # Of a claim; Nova logs the others.
    events.Refused: (
        logging.WARNING, 'Cannot claim reservation: {event.reason}',
    ),
}  # fmt: skip


class EventLog:
    """A listener that logs each event, with the server's UUID.

    :param counter: a listener that subscribed before this one
    """

    def __init__(self, counter: events.Counter) -> None:
        self._counter = counter

    def __call__(self, event: events.Event) -> None:
        """Log an event; types without a message of their own are skipped."""
        if event.repeated or type(event) not in _TEXTS:
            return
        if isinstance(event, events.Refused) and (
            event.action is not events.Action.CLAIM
        ):
            return
        level, text = _TEXTS[type(event)]
        rec = event.held
        text = text.format(
            event=event,
            has=None if rec is None else rec.request.reservation,
            cpus='' if rec is None else cpulist.render(rec.cpus),
            repairs=self._counter.get(events.Repaired),
        )
        LOG.log(level, '%s', text, instance_uuid=event.uuid)
