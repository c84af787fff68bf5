# SPDX-License-Identifier: Apache-2.0
"""The claims of one host, with refusals as errors of Nova.

It connects the resource tracker, which follows Nova's own claims step by step,
to :class:`nova_rt.tracking.reservations.Reservations`, which knows no Nova. A
refusal is a ComputeResourcesUnavailable with our numbers: Nova then tries
another host.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova import exception as nova_exception

from nova_rt import events, exception, faults
from nova_rt.reservation import extra_specs, node_stats, record
from nova_rt.tracking import servers
from nova_rt.tracking.claims import Slots
from nova_rt.tracking.reservations import CLAIM_ERRORS, Reservations


def read(
    instance: Any,
    reader: Callable[[Any], record.Record | None] = servers.read_record,
) -> record.Record | None:
    """Read a record of a server.

    :param reader: a function of :mod:`nova_rt.tracking.servers`
    :returns: its result
    :raises ComputeResourcesUnavailable: if it cannot be read
    """
    try:
        return reader(instance)
    except exception.InvalidRecord as err:
        raise _unavailable(err) from err


def _unavailable(
    err: exception.NovaRTError,
) -> nova_exception.ComputeResourcesUnavailable:
    return nova_exception.ComputeResourcesUnavailable(reason=faults.tell(err))


class HostClaims:
    """The claims of a host.

    Methods that change them are called under Nova's
    COMPUTE_RESOURCE_SEMAPHORE.

    :param host: its name
    :param reservations: None for a host without reservations, which is
        tracked as in Nova
    """

    def __init__(self, host: str, reservations: Reservations | None) -> None:
        self._host = host
        self._reservations = reservations

    def __bool__(self) -> bool:
        """Tell whether the host gives reservations."""
        return self._reservations is not None

    def get(self, uuid: str) -> Slots:
        """Return the slots of a server on this host, which may be empty."""
        if self._reservations is None:
            return Slots()
        return self._reservations.held.get(uuid)

    def require(self) -> Reservations:
        """Require that the host gives reservations.

        :returns: them
        :raises ComputeResourcesUnavailable: if it gives none
        """
        if self._reservations is None:
            raise nova_exception.ComputeResourcesUnavailable(
                reason='this host gives no reservations'
            )
        return self._reservations

    def claim(
        self, uuid: str, asked: record.Record, beside: bool = False
    ) -> record.Record:
        """Claim CPUs; see :meth:`.Reservations.claim`.

        :returns: the same request with its CPUs
        :raises ComputeResourcesUnavailable: with our numbers
        """
        try:
            return self.require().claim(uuid, asked, beside)
        except CLAIM_ERRORS as err:
            raise _unavailable(err) from err

    def hold(self, uuid: str, *slots: Any) -> None:
        """See :meth:`.Reservations.hold`; no effect without reservations."""
        if self._reservations is not None:
            self._reservations.hold(uuid, *slots)

    def release(self, uuid: str) -> None:
        """Release all claims of a server, if any."""
        if self._reservations is not None:
            self._reservations.release(uuid)

    def drop_move(self, instance: Any) -> None:
        """Release the claim of a move, which is over or will not happen.

        :param instance: nova.objects.Instance, without the keys of the move
            afterwards
        """
        servers.forget_move(instance)
        current = None
        if instance.host == self._host:
            current = self.get(instance.uuid).current
        self.hold(instance.uuid, current)

    def check_admitted(
        self,
        uuid: str,
        rec: record.Record,
        allocations: Iterable[Mapping[str, Any]],
    ) -> None:
        """Refuse a server that Placement has not admitted.

        A scheduler without our filter, or a manual change of the allocation,
        leaves it without bandwidth: the sum of the host would be wrong.

        :param allocations: of the server on this host, by provider
        :raises ComputeResourcesUnavailable: with the numbers
        """
        held = sum(
            each['resources'].get(extra_specs.RESOURCE_CLASS, 0)
            for each in allocations
        )
        needed = rec.request.total_ppm
        if held != needed:
            err = exception.NotAdmitted(
                f'Placement holds {held} {extra_specs.RESOURCE_CLASS} for '
                f'this server, which needs {needed}: the scheduler that chose '
                'this host does not run RTBandwidthFilter'
            )
            self.require().refuse(uuid, events.Action.CLAIM, err)
            raise _unavailable(err) from err

    def check_move(self, instance: Any, migration: Any) -> None:
        """Refuse moves that real-time servers do not support.

        :raises ComputeResourcesUnavailable: with the reason
        """
        reason = None
        if migration is not None and migration.is_live_migration:
            reason = faults.CANNOT_GO_LIVE
        elif migration is not None and migration.cross_cell_move:
            reason = faults.CANNOT_LEAVE_CELL
        if reason is not None:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=self.require().refuse(
                    instance.uuid, events.Action.MOVE, reason
                )
            )

    def find_noted(self, instance: Any) -> record.Record | None:
        """Find the claim of a server that has moved to this host.

        It restores the lost keys of the move.

        :returns: None for a plain flavor
        :raises ActionRefused: if this host has no claim for it either
        """
        if not extra_specs.is_rt(instance.new_flavor.extra_specs):
            return None
        self.require()
        slots = self.get(instance.uuid)
        # An audit puts the claim of a server that has left into the first
        # slot.
        rec = slots.beside or next(iter(slots.records), None)
        if rec is None or rec.encode() == (
            instance.system_metadata.get(record.KEY)
        ):
            raise faults.ActionRefused(
                reason='the record of the move to this host is lost, and '
                'this host has no claim for the server'
            )
        return rec

    def render(self) -> dict[str, str]:
        """Render the statistics of this host for the scheduler.

        :returns: statistics of the compute node; none without reservations
        """
        if self._reservations is None:
            return {}
        found = self._reservations.capability
        return node_stats.render(self._reservations.free()) | {
            'rt_interface': found.name,
            'rt_enforcement': str(found.enforcement),
        }
