# SPDX-License-Identifier: Apache-2.0
"""Logging of the events of reservations in nova-compute."""

import functools

from oslo_log import log as logging

from nova_rt import events
from nova_rt.reservation import cpulist

LOG = logging.getLogger(__name__)


class EventLog:
    """A listener that logs each event, with the server's UUID.

    :param counter: a listener that subscribed before this one
    """

    def __init__(self, counter: events.Counter) -> None:
        self._counter = counter

    def __call__(self, event: events.Event) -> None:
        """Log an event; types without a message of their own are skipped."""
        if not event.repeated:
            self._log(event)

    @functools.singledispatchmethod
    def _log(self, event: events.Event) -> None:
        pass

    @_log.register
    def _(self, event: events.Claimed) -> None:
        reservation = event.record.request.reservation
        LOG.info(
            'Claimed %d ppm (%s) on CPU %s', reservation.ppm, reservation,
            cpulist.render(event.record.cpus), instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Added) -> None:
        reservation = event.record.request.reservation
        LOG.info(
            'Claimed another %d ppm (%s) on CPU %s, for a resize',
            reservation.ppm, reservation, cpulist.render(event.record.cpus),
            instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Changed) -> None:
        LOG.info(
            'Changed reservation from %s to %s on CPU %s', event.before,
            event.record.request.reservation,
            cpulist.render(event.record.cpus), instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Frozen) -> None:
        LOG.warning(
            'The reservation does not follow the load: %s', event.reason,
            instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Applied) -> None:
        LOG.info(
            'Applied reservation %s on CPU %s',
            event.record.request.reservation,
            cpulist.render(event.record.cpus), instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Drifted) -> None:
        LOG.error(
            'Reservation not held: %s; applying it again',
            event.difference, instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Repaired) -> None:
        LOG.info(
            'Repaired reservation %s on CPU %s; repair %d since the start of '
            'this service', event.record.request.reservation,
            cpulist.render(event.record.cpus),
            self._counter.get(events.Repaired), instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Stopped) -> None:
        LOG.error(
            'Stopping this container: its reservation is not held: %s',
            event.reason, instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Unverified) -> None:
        LOG.error(
            'Cannot verify or repair the reservation: %s; the container runs '
            'on, and each check tries again', event.reason,
            instance_uuid=event.uuid,
        )  # fmt: skip

    @_log.register
    def _(self, event: events.Refused) -> None:
        if event.action is events.Action.CLAIM:
            LOG.warning(
                'Cannot claim reservation: %s',
                event.reason,
                instance_uuid=event.uuid,
            )
