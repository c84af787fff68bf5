# SPDX-License-Identifier: Apache-2.0
"""Changes of a reservation while its server runs.

The journal is one key of the server's system metadata, ``nova_rt_change``,
with the record that the change leads to. While it is there, the server has
Nova's task ``resize_prep``, so that nova-api refuses all actions but its
deletion, and the sums of this host count the larger of both records on each
CPU.

A change that grows is claimed, journalled, allocated, written to the kernel
and recorded, in this order; :mod:`.early_writes` lets the kernel hold it even
before that. Everything else is done by :meth:`Changes.settle`,
which always leads to the *lesser* of both records: it ends a change that
shrinks, undoes one that grows and has failed, and does the same for a change
whose service was killed. The lesser one needs no room that could be missing.
The states are in doc/source/contributor/live-change.rst.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import time
from typing import Any, TypeVar

from nova import exception as nova_exception
from nova import utils
from nova.compute import manager as nova_manager
from nova.compute import task_states
from oslo_log import log as logging
import oslo_messaging

from nova_rt import events, exception, once, revert
from nova_rt.compute import allocations, background, early_writes, obstacles
from nova_rt.formats.changes import NAMESPACE, VERSION, Answer, Condition
from nova_rt.reservation import record
from nova_rt.reservation.reservation import Reservation
from nova_rt.tracking import servers

LOG = logging.getLogger(__name__)

_Result = TypeVar('_Result')

#: Attempts to take back an early write while others write to the container,
#: and seconds between them.
_ATTEMPTS = 5
_BUSY_S = 0.1

#: Tasks of a server whose journal may be settled.
_SETTLED_IN = (None, task_states.RESIZE_PREP)


class _Returning(Exception):
    """The kernel still holds bandwidth that a change returns.

    :ivar left_s: seconds until it holds it no more
    """

    def __init__(self, left_s: float) -> None:
        super().__init__(f'the kernel holds bandwidth for {left_s} s')
        self.left_s = left_s


class Changes:
    """The changes of the servers of a host, and the RPC that asks for them.

    :param manager: the host's :class:`.RTComputeManager`
    """

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, manager: nova_manager.ComputeManager) -> None:
        self._manager = manager
        self._allocations = allocations.Allocations(manager.reportclient)
        self._early = early_writes.EarlyWrites(manager)
        #: Refusals of deferred changes, which conductors ask for again.
        self._refused = once.Once()
        #: Server -> monotonic time at which the kernel was read back, and at
        #: which the kernel has its bandwidth back.
        self._read_back: dict[str, float] = {}
        self._returned: dict[str, float] = {}
        self._started = time.monotonic()

    def change_reservation(
        self,
        context: Any,
        server: str,
        generation: int,
        flavor: int,
        reservation: str,
        migrate: bool = False,
    ) -> dict[str, Any]:
        """Change the reservation of a server, or say why not.

        The same request may come again.

        :param server: UUID
        :param generation: number of the change, which grows
        :param flavor: Nova's number of the flavor that the server had when it
            was asked for
        :param reservation: runtime and period
        :param migrate: whether the server is to be migrated if there is no
            room: it takes its wish along then
        :returns: the primitive form of an :class:`.Answer`
        """

        began_s = time.monotonic()
        context = context.elevated()
        wish = Reservation.parse(reservation)

        def change() -> Answer:
            if self._write_early(server, generation, flavor, wish):
                # A smaller one waits for a period: it would be old by then.
                self._allocations.read_ahead(context, server)
            answer = self._answer(
                context, server, generation, flavor, wish, migrate
            )
            if answer.condition is Condition.APPLIED:
                self._early.note_change(server, generation, flavor)
            else:
                self._take_back(server)
            return answer

        try:
            answer = self._run(server, change)
        finally:
            self._allocations.forget(server)
        if server in self._returned:
            # The change has failed, and the kernel is on its way back.
            self._try_settle(context, server)
        for _ in range(_ATTEMPTS):
            if not self._early.is_open(server):
                break
            time.sleep(_BUSY_S)
            utils.synchronized(server)(self._take_back)(server)
        self._early.release(server)
        read_s = self._read_back.pop(server, None)
        if answer.condition is Condition.APPLIED and read_s is not None:
            LOG.info(
                'Reservation changed to %s: in the kernel after %.1f ms, '
                'everywhere after %.1f ms', reservation,
                (read_s - began_s) * 1000,
                (time.monotonic() - began_s) * 1000, instance_uuid=server,
            )  # fmt: skip
        return dataclasses.asdict(answer)

    def _run(self, uuid: str, step: Callable[[], _Result]) -> _Result:
        """Run a step under Nova's lock of a server.

        The kernel holds used bandwidth until the end of its period, up to
        seconds. Nova may delete the server meanwhile: it waits for the lock.

        :returns: the result of the step
        """
        while True:
            try:
                result: _Result = utils.synchronized(uuid)(step)()
                return result
            except _Returning as err:
                time.sleep(err.left_s)

    def _write_early(
        self, uuid: str, generation: int, flavor: int, wish: Reservation
    ) -> bool:
        """Write early; see :meth:`.EarlyWrites.write`.

        :returns: whether the kernel holds a larger reservation now
        """
        before = self._early.write(uuid, generation, flavor, wish)
        if before is None:
            return False
        self._read_back[uuid] = now = time.monotonic()
        if before.ppm > wish.ppm:
            self._returned[uuid] = now + wish.period_us / 1_000_000
        return before.ppm <= wish.ppm

    def _take_back(self, uuid: str) -> None:
        """Take back an early write, unless there is a journal by now."""
        slots = self._manager.driver.reservations.held.get(uuid)
        if self._early.take_back(uuid) and slots.changing is None:
            self._returned.pop(uuid, None)

    def _answer(
        self,
        context: Any,
        uuid: str,
        generation: int,
        flavor: int,
        wish: Reservation,
        migrate: bool,
    ) -> Answer:
        try:
            instance = obstacles.read(context, uuid)
            if instance.host != self._manager.host:
                return Answer(
                    Condition.IN_PROGRESS, 'the server has moved',
                    host=instance.host or '',
                )  # fmt: skip
            if servers.is_changing(instance):
                # It saves the server, and so reads it.
                self._settle(context, instance)
            rec = obstacles.find_record(instance, generation, flavor)
            if not migrate:
                _save_wish(instance, None, generation)
            if rec.request.reservation != wish or generation > (
                servers.read_generation(instance)
            ):
                try:
                    self._change(context, instance, rec, wish, generation)
                except exception.InsufficientBandwidth as err:
                    if not migrate:
                        raise
                    # Even if this host could never have the room.
                    instance = obstacles.read(context, uuid)
                    _save_wish(instance, wish, generation)
                    return dataclasses.replace(
                        self._explain(uuid, err), condition=Condition.DEFERRED
                    )
        except _Returning:
            raise
        except Exception as err:
            return self._explain(uuid, err)
        self._refused.forget(uuid)
        return Answer(Condition.APPLIED, actual=str(wish))

    def _explain(self, uuid: str, err: Exception) -> Answer:
        """Turn the error of a change into an answer."""
        if isinstance(err, nova_exception.InstanceNotFound):
            self._returned.pop(uuid, None)
            return Answer(
                Condition.INFEASIBLE, 'there is no such server', gone=True
            )
        if isinstance(err, obstacles.Obstacle):
            return Answer(err.condition, str(err))
        condition = Condition.INFEASIBLE
        if isinstance(err, exception.InsufficientBandwidth):
            self._refuse(uuid, err)
            if not isinstance(err, exception.TooLarge):
                condition = Condition.DEFERRED
            return Answer(
                condition, str(err), err.asked_ppm,
                min(err.free_ppm, default=0), err.rule,
            )  # fmt: skip
        if isinstance(err, exception.InvalidRecord):
            self._refuse(uuid, err)
        elif isinstance(err, exception.ReservationNotApplied):
            self._refuse(uuid, err)
            if not err.verdict:
                condition = Condition.IN_PROGRESS
        else:
            # A fault of ours, of Placement or of a database: to be repeated.
            LOG.warning(
                'Cannot change reservation now: %r', err, instance_uuid=uuid
            )
            condition = Condition.IN_PROGRESS
        return Answer(condition, str(err) or repr(err))

    def _refuse(self, uuid: str, err: Exception) -> None:
        if self._refused.is_new(uuid, str(err)):
            self._manager.driver.reservations.refuse(
                uuid, events.Action.CHANGE, err
            )

    # The steps

    def _change(
        self,
        context: Any,
        instance: Any,
        rec: record.Record,
        wish: Reservation,
        generation: int,
    ) -> None:
        """Change a reservation; on an error it is the old or the new one."""
        wanted = rec.with_reservation(wish)
        with revert.on_error() as steps:
            steps.add(self._settle_again, context, instance.uuid)
            target = self._manager.rt.rt_begin_change(
                instance, rec, wanted, generation
            )
            if not servers.is_lesser(target, rec):
                # The end repeats it if it fails.
                background.begin(self._manager.rt.rt_publish, instance.node)
                try:
                    self.allocate(context, instance, target)
                except (
                    exception.InsufficientBandwidth, exception.NotAdmitted,
                ):  # fmt: skip
                    # Neither Placement nor, but for an early write, the
                    # kernel was changed: a boost goes on.
                    servers.end_change(instance, rec)
                    self._manager.rt.rt_end_change(instance, written=False)
                    raise
                self._hold_larger(instance.uuid, rec, target)
                servers.end_change(instance, target)
                self._manager.rt.rt_end_change(instance)
        if not servers.is_changing(instance):
            self._announce(instance.uuid, rec, target)
            return
        refused = self._settle(context, instance)
        if refused is not None:
            raise refused

    def _announce(
        self, uuid: str, old: record.Record, new: record.Record
    ) -> None:
        driver = self._manager.driver
        driver.running.correct_copy(uuid)
        if old != new:
            driver.reservations.dispatcher.emit(
                events.Changed(uuid, new, str(old.request.reservation))
            )

    def _settle_again(self, context: Any, uuid: str) -> None:
        instance = obstacles.read(context, uuid)
        if servers.is_changing(instance):
            with contextlib.suppress(_Returning):
                self._settle(context, instance)
        else:
            self._manager.rt.rt_hold_record(instance)

    def settle(self, context: Any, uuid: str) -> None:
        """End the change that an earlier run of this service has left.

        :raises Exception: if that fails; the server keeps both records, and
            the next call goes on
        """

        def settle() -> None:
            instance = obstacles.read(context, uuid)
            if servers.is_changing(instance) and (
                instance.host == self._manager.host
            ):
                self._settle(context, instance)

        self._run(uuid, settle)
        self._read_back.pop(uuid, None)

    def settle_all(self, context: Any) -> None:
        """Settle every change that waits on this host.

        A request that is under way has the lock of its server.
        """
        known = self._manager.driver.reservations.held.list_all()
        self._refused.forget_all_but(known)
        self._early.forget_all_but(known)
        for uuid, slots in known.items():
            if slots.changing is not None:
                self._try_settle(context, uuid)
        for uuid in self._early.list_open():
            utils.synchronized(uuid)(self._take_back)(uuid)
            self._early.release(uuid)

    def _try_settle(self, context: Any, uuid: str) -> None:
        try:
            self.settle(context, uuid)
        except nova_exception.InstanceNotFound:
            self._returned.pop(uuid, None)
        except Exception as err:
            LOG.warning(
                'Cannot end change of reservation: %s; the next check tries '
                'again', err, instance_uuid=uuid,
            )  # fmt: skip

    def _settle(
        self, context: Any, instance: Any
    ) -> exception.ReservationNotApplied | None:
        """Lead a change to the lesser of its records, from any step.

        :param instance: nova.objects.Instance, as just read
        :returns: the refusal of a kernel that keeps the larger one, else None
        :raises _Returning: if this is to be called again later
        """
        refused = None
        if instance.task_state not in _SETTLED_IN:
            raise obstacles.Obstacle(
                Condition.IN_PROGRESS,
                f'the server has the task {instance.task_state}',
            )
        uuid = instance.uuid
        rec = servers.read_claimed(instance)
        assert rec is not None
        try:
            target = servers.read_change(instance) or rec
        except exception.InvalidRecord as err:
            LOG.error(
                'Ending change of reservation with the present %s, since its '
                'journal cannot be read: %s', rec.request.reservation, err,
                instance=instance,
            )  # fmt: skip
            target = rec
        lesser, other = rec, target
        if servers.is_lesser(target, rec):
            lesser, other = target, rec
        self._manager.rt.rt_hold_record(instance)
        try:
            written = self._hold_lesser(uuid, lesser, other)
        except exception.ReservationNotApplied as err:
            if not err.verdict or lesser is rec:
                raise
            # The kernel does not take it: all else is as it was.
            LOG.warning(
                'Undoing change of reservation: %s', err, instance=instance
            )
            self._hold(uuid, rec)
            lesser, refused = rec, err
        if refused is None:
            self._check_returned(uuid, other, written)
        self.allocate(context, instance, lesser)
        servers.end_change(instance, lesser)
        self._manager.rt.rt_end_change(instance)
        self._announce(uuid, rec, lesser)
        return refused

    def _check_returned(
        self, uuid: str, larger: record.Record, written: bool
    ) -> None:
        """Require that the kernel has all bandwidth back.

        It holds used bandwidth until the end of its period.

        :param larger: the record that it held before
        :param written: whether a lesser one was written just now; if not, an
            earlier run of this service may have done it
        :raises _Returning: if not
        """
        now = time.monotonic()
        period_s = larger.request.reservation.period_us / 1_000_000
        if written:
            self._returned[uuid] = now + period_s
        left_s = self._returned.get(uuid, self._started + period_s) - now
        if left_s > 0:
            raise _Returning(left_s)
        self._returned.pop(uuid, None)

    def _hold(self, uuid: str, *path: record.Record) -> bool:
        written: bool = self._manager.driver.running.change(uuid, *path)
        now = time.monotonic()
        if written:
            self._read_back[uuid] = now
        else:
            # It was written early.
            self._read_back.setdefault(uuid, now)
        return written

    def _hold_larger(
        self, uuid: str, rec: record.Record, target: record.Record
    ) -> None:
        """Write the larger record to the kernel.

        A boost, or feedback, may have given the server more than that, and so
        may a change that was taken back: the kernel holds used bandwidth until
        the end of its period.
        """
        held = self._manager.driver.reservations.held
        counted = held.get_counted(uuid, rec)
        self._hold(uuid, target)
        if counted.ppm > target.ppm:
            time.sleep(counted.request.reservation.period_us / 1_000_000)

    def _hold_lesser(
        self, uuid: str, lesser: record.Record, other: record.Record
    ) -> bool:
        """Write the lesser record to the kernel.

        It moves to other CPUs after it has become small: the larger one does
        not fit there.
        """
        path = [lesser]
        if lesser.cpus != other.cpus:
            path.insert(0, lesser.claimed_on(other.cpus))
        return self._hold(uuid, *path)

    def allocate(
        self, context: Any, instance: Any, rec: record.Record
    ) -> None:
        """Make Placement hold a record; see :meth:`.Allocations.change`."""
        provider = self._manager.rt.rt_find_provider(context, instance)
        self._allocations.change(context, instance.uuid, provider, rec)


def _save_wish(
    instance: Any, wanted: Reservation | None, generation: int
) -> None:
    if servers.set_wish(instance, wanted, generation):
        instance.save(expected_task_state=[None])
