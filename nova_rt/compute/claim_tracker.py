# SPDX-License-Identifier: Apache-2.0
"""Nova's resource tracker, with CPU bandwidth claimed CPU by CPU.

Placement has admitted the host's sum by then; the CPUs on which a server has
its bandwidth are chosen here, under Nova's own claim lock. What is held and
given up follows Nova's own claims, step by step: those of moves as well.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova import exception as nova_exception
from nova import utils
from nova.compute import resource_tracker, vm_states
from nova.objects import fields
from oslo_log import log as logging

from nova_rt import events, exception, faults
from nova_rt.lxc import user_namespaces
from nova_rt.reservation import extra_specs, record
from nova_rt.tracking import servers
from nova_rt.tracking.reservations import Reservations

LOG = logging.getLogger(__name__)

#: For what changes claims and is not called under the lock anyway.
locked = utils.synchronized(
    resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True
)


class ClaimTracker(resource_tracker.ResourceTracker):
    """ResourceTracker that also claims bandwidth, for servers and for moves.

    What changes claims runs under Nova's COMPUTE_RESOURCE_SEMAPHORE: in
    methods that Nova calls while it holds it, and in our own that take it.
    """

    def __init__(self, host, driver, reportclient=None, reservations=None):
        """Track a host.

        :param reservations: those of this host; None for a host that has none
            to give and is tracked as Nova does
        """
        super().__init__(host, driver, reportclient)
        self._reservations: Reservations | None = reservations

    def _rt_require(self) -> Reservations:
        """Get the reservations of this host, for a real-time server.

        :returns: the reservations
        :raises ComputeResourcesUnavailable: if it has none to give
        """
        if self._reservations is None:
            raise nova_exception.ComputeResourcesUnavailable(
                reason='this host gives no reservations'
            )
        return self._reservations

    def instance_claim(
        self, context, instance, nodename, allocations, limits=None
    ):  # fmt: skip
        """Refuse a real-time server that Placement has not admitted.

        A scheduler without our filter, or an allocation that was changed by
        hand, asks Placement for nothing: the sum of the host would be wrong.
        Refuse a shelved server, too, whose files would belong to nobody here.

        :raises ComputeResourcesUnavailable: with the numbers
        """
        if instance.vm_state == vm_states.SHELVED_OFFLOADED:
            user_namespaces.check_owners(self.driver, instance)
        rec = self._rt_read(instance)
        if rec is not None:
            self._rt_check_admitted(
                instance.uuid, rec, (allocations or {}).values()
            )
        return super().instance_claim(
            context, instance, nodename, allocations, limits
        )

    @staticmethod
    def _rt_read(
        instance: Any,
        read: Callable[[Any], record.Record | None] = servers.read_record,
    ) -> record.Record | None:
        try:
            return read(instance)
        except exception.InvalidRecord as err:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err

    def _rt_check_admitted(
        self,
        uuid: str,
        rec: record.Record,
        allocations: Iterable[Mapping[str, Any]],
    ) -> None:
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
            self._rt_require().refuse(uuid, events.Action.CLAIM, err)
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err

    def _set_instance_host_and_node(self, instance: Any, node: Any) -> None:
        """Claim CPUs in the step of instance_claim() that saves the server.

        :raises ComputeResourcesUnavailable: with our numbers; Nova then
            tries another host
        """
        rec = self._rt_read(instance)
        if rec is None:
            super()._set_instance_host_and_node(instance, node)
            return
        held = self._rt_require()
        rec = self._rt_claim(instance.uuid, rec)
        try:
            servers.write_record(instance, rec)
            super()._set_instance_host_and_node(instance, node)
        except Exception:
            held.release(instance.uuid)
            raise

    def delete_allocation_for_shelve_offloaded_instance(
        self, context, instance
    ):
        """Put it into the record, too: Nova saves the server next.

        With the same write that says that it is offloaded.
        """
        super().delete_allocation_for_shelve_offloaded_instance(
            context, instance
        )
        servers.forget_cpus(instance)

    def _move_claim(
        self, context, instance, new_flavor, nodename, migration, allocations,
        move_type=None, image_meta=None, limits=None,
    ):  # fmt: skip
        """Claim CPUs for a server that comes here, beside all others.

        Nova saves the server with the slot that is noted here, and counts the
        claim as of then.

        :raises ComputeResourcesUnavailable: with our numbers
        """

        def claim() -> Any:
            return super(ClaimTracker, self)._move_claim(
                context, instance, new_flavor, nodename, migration,
                allocations, move_type, image_meta, limits,
            )  # fmt: skip

        evacuated = move_type == fields.MigrationType.EVACUATION
        if evacuated:
            user_namespaces.check_owners_after_death(self.driver, instance)
        if not servers.is_rt_move(instance, new_flavor):
            servers.begin_move(instance)
            return claim()
        if self.disabled(nodename):
            return claim()  # Nova refuses.
        self._rt_check_move(instance, migration)
        asked = self._rt_read_asked(instance, evacuated)
        rec = None
        if asked is not None:
            # During an evacuation the server's allocations are those of both
            # hosts.
            node = self.compute_nodes[nodename].uuid
            here = (allocations or {}).get(node)
            self._rt_check_admitted(
                instance.uuid, asked, [here] if here else []
            )
            # An evacuated server is started before Nova says that it is here.
            rec = self._rt_claim(instance.uuid, asked, beside=not evacuated)
        try:
            servers.note_move(instance, rec)
            return claim()
        except Exception:
            self._rt_drop_claim(instance)
            raise

    def _rt_check_move(self, instance: Any, migration: Any) -> None:
        """Refuse the moves that nothing here is made for."""
        reason = None
        if migration is not None and migration.is_live_migration:
            reason = faults.CANNOT_GO_LIVE
        elif migration is not None and migration.cross_cell_move:
            reason = faults.CANNOT_LEAVE_CELL
        if reason is not None:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=self._rt_require().refuse(
                    instance.uuid, events.Action.MOVE, reason
                )
            )

    @staticmethod
    def _rt_read_asked(instance: Any, evacuated: bool) -> record.Record | None:
        """Read what a server that comes here asks for.

        The manager has noted that; an evacuation changes nothing.

        :returns: the record, its CPUs to be claimed; None for a plain flavor
        """
        read = servers.read_record if evacuated else servers.read_new
        return ClaimTracker._rt_read(instance, read)

    def _rt_claim(
        self, uuid: str, asked: record.Record, beside: bool = False
    ) -> record.Record:
        """Claim CPUs; see :meth:`.Reservations.claim`.

        :raises ComputeResourcesUnavailable: with our numbers
        """
        try:
            return self._rt_require().claim(uuid, asked, beside)
        except (
            exception.ClaimsUnknown,
            exception.HostNotPrepared,
            exception.InsufficientBandwidth,
            exception.InvalidRecord,
        ) as err:
            raise nova_exception.ComputeResourcesUnavailable(
                reason=faults.tell(err)
            ) from err

    def _rt_drop_claim(self, instance: Any) -> None:
        """Give up what was claimed for a move that will not come to pass."""
        servers.forget_move(instance)
        if self._reservations is not None:
            current = None
            if instance.host == self.host:
                current = self._reservations.held.get(instance.uuid).current
            self._reservations.hold(instance.uuid, current)

    def _drop_move_claim(
        self, context, instance, nodename, flavor=None, prefix='new_',
    ):  # fmt: skip
        """Give up the slot of a move that is confirmed, reverted or aborted.

        Nova then publishes what is free. It also forgets, until the next
        audit, a server that was resized on its host; the claims do not.
        """
        if self._reservations is not None:
            if prefix == 'old_':
                # Confirmed, seen from the source.
                self._rt_drop_claim(instance)
            elif servers.has_switched(instance):
                # Reverted, seen from the destination. The source says what
                # the server runs with, when it has it.
                held = self._reservations.held.get(instance.uuid)
                self._reservations.hold(instance.uuid, held.beside)
            else:
                self._rt_drop_claim(instance)
        super()._drop_move_claim(context, instance, nodename, flavor, prefix)

    def rt_restore_note(self, instance: Any) -> None:
        """Note again what a server that has come here holds, if that is lost.

        :param instance: nova.objects.Instance in finish_resize()
        :raises ActionRefused: if this host does not know it either
        """
        if not servers.is_note_lost(instance):
            return
        rec = None
        if extra_specs.is_rt(instance.new_flavor.extra_specs):
            slots = self._rt_require().held.get(instance.uuid)
            # An audit makes the claim of a server that has left the first.
            rec = slots.beside or next(iter(slots.records), None)
            if rec is None or rec.encode() == (
                instance.system_metadata.get(record.KEY)
            ):
                raise faults.ActionRefused(
                    reason='the record of its move to this host is lost, and '
                    'this host holds nothing for it'
                )
        LOG.warning(
            'Another service has overwritten the record of the move to this '
            'host: restoring it from the claim', instance=instance,
        )  # fmt: skip
        servers.note_move(instance, rec)

    @locked
    def rt_switch(self, instance: Any) -> None:
        """A server that was moved here is saved with its new reservation.

        :param instance: nova.objects.Instance, as it was saved
        """
        if self._reservations is None:
            return
        uuid = instance.uuid
        migration = self.tracked_migrations.get(uuid)
        beside = None
        if migration is not None and migration.source_compute == self.host:
            beside = self._rt_read(instance, servers.read_beside)
        current = self._rt_read(instance, servers.read_claimed)
        self._reservations.hold(uuid, current, beside)

    @locked
    def rt_return(self, instance: Any) -> None:
        """A server that was reverted is saved with its old reservation here.

        :param instance: nova.objects.Instance, as it was saved
        """
        if self._reservations is not None:
            current = self._rt_read(instance, servers.read_claimed)
            self._reservations.hold(instance.uuid, current)

    def finish_evacuation(self, instance, node, migration):
        """Keep what was claimed here for the server, and that alone."""
        if instance.host != self.host:
            servers.arrive(instance)
        super().finish_evacuation(instance, node, migration)
