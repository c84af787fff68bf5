# SPDX-License-Identifier: Apache-2.0
"""Draws the whole picture of this host: its CPUs, and what servers hold."""

import datetime
from typing import Protocol

from nova_rt.compute.backlog import Backlog
from nova_rt.compute.meter import Records, Running
from nova_rt.formats.reports import (
    HeldReservation,
    HostCPU,
    HostState,
    NewEvent,
    ServerState,
)
from nova_rt.host.capability import Capability
from nova_rt.reservation import admission, record


class Source(Protocol):
    """The members of :mod:`nova_rt.tracking.reservations` used here."""

    adopted: bool
    capability: Capability
    held: Records

    def capacity(self) -> admission.Capacity: ...


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class HostPicture:
    """The state of this host, drawn anew each time.

    :param source: the reservations of this host
    :param running: its running containers
    :param backlog: a listener of the source's events
    :param version: of nova_rt
    """

    def __init__(
        self, source: Source, running: Running, backlog: Backlog, version: str
    ) -> None:
        self._source = source
        self._running = running
        self._backlog = backlog
        self._version = version
        self._started = _now()

    @property
    def complete(self) -> bool:
        """Whether the servers of this host are known."""
        return self._source.adopted

    def draw(self, epoch: int, seq: int) -> HostState:
        """Draw it.

        :param epoch: of this start of the service
        :param seq: number of the state in it
        :returns: the state
        """
        # First: what comes later may be in the picture as well.
        event_seq = self._backlog.seq
        changes = self._backlog.find_changes()
        running = self._running.list_running()
        records = self._source.held.list_records()
        capacity = self._source.capacity()
        capability = self._source.capability
        reserved = admission.sum_by_cpu(self._source.held.list_claims())
        whole = None
        if capacity.host_ppm is not None:
            whole = HostCPU(capacity.host_ppm, sum(reserved.values()))
        return HostState(
            epoch=epoch,
            seq=seq,
            event_seq=event_seq,
            version=self._version,
            interface=capability.name,
            enforcement=capability.enforcement.value,
            scope=capability.scope.value,
            cpus={
                cpu: HostCPU(ppm, reserved[cpu])
                for cpu, ppm in capacity.cpus.items()
            },
            host_cpu=whole,
            servers=tuple(
                self._hold(uuid, rec, uuid in running, changes.get(uuid))
                for uuid, rec in records.items()
            ),
        )

    def _hold(
        self,
        uuid: str,
        rec: record.Record,
        runs: bool,
        change: NewEvent | None,
    ) -> HeldReservation:
        """The state of a server, by its last event and by libvirt."""
        if runs:
            states = {ServerState.APPLIED, ServerState.DRIFTED}
            other = ServerState.APPLIED
        else:
            states = {ServerState.CLAIMED, ServerState.STOPPED}
            other = ServerState.CLAIMED
        if change is not None and change.state in states:
            return HeldReservation(uuid, rec, change.state, change.at)
        since = self._started if change is None else _now()
        return HeldReservation(uuid, rec, other, since)
