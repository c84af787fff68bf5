# SPDX-License-Identifier: Apache-2.0
"""The compute host as nova_rt sees it: its capacity and its containers.

Other layers call this module of the host layer only.
"""

from collections.abc import Collection, Iterable, Mapping
import errno
import functools
import logging
import pathlib
import threading
from time import monotonic
from typing import Any, Self

from nova_rt import exception
from nova_rt.host import capability, cgroup, cpus, lxc, ownership, probe
from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.host.interface import Share, Usage, UsageSource
from nova_rt.host.offer import Offer
from nova_rt.host.options import Options
from nova_rt.host.orphans import OrphanedGroup
from nova_rt.host.protocol import Backend
from nova_rt.reservation import admission, cpulist, record, spare
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

LOG = logging.getLogger(__name__)

#: Seconds during which the release of a gone group's bandwidth is expected;
#: the kernel needs no more than ``cgroup.PATIENCE_S``.
_EXPECTED_S = 5.0

#: Seconds that a claim waits for bandwidth, holding up all other claims. A
#: removed group releases its own within two seconds; bandwidth in use until
#: the end of a long period is waited for by the write, outside of locks.
_CLAIM_PATIENCE_S = 2.0


def make_claim_patience() -> cgroup.Patience:
    """Make the time for which one claim waits, however often it is placed.

    :returns: the budget, for :meth:`Host.place`
    """
    return cgroup.Patience(_CLAIM_PATIENCE_S)


class Host:
    """Reservations of this host.

    A container is named by its libvirt_lxc process, the domain's ID: ``pid``.

    :param cpu_set: CPUs that servers may use, a list of ranges; None for all
        that are online
    :param smt: whether all hardware threads of a core are offered
    :param others: option that gives CPUs to other servers -> its value
    :param reserved_ppm: bandwidth to keep back, in ppm of a CPU: on each CPU,
        or once where the kernel sums over the host
    :param partition: group that libvirt puts containers in, below the root
        of the hierarchy; None for libvirt's default
    :param placement: the strategy that chooses a server's CPUs, an
        :class:`admission.Placement`
    :param spare_pool: the pool of spare bandwidth on each CPU, as runtime and
        period in microseconds; None for no pool
    :param files: access to the host's files

    :ivar capability: the bandwidth that the kernel offers, after :meth:`look`
    :ivar offer: the CPUs that servers may use, after :meth:`look`
    """

    capability: Capability
    offer: Offer
    _backend: Backend[Any]

    def __init__(
        self,
        *,
        cpu_set: str | None,
        smt: bool,
        reserved_ppm: int,
        partition: str | None,
        others: Mapping[str, str] | None = None,
        placement: str = admission.Placement.WORST_FIT,
        spare_pool: str | None = None,
        files: Files | None = None,
    ) -> None:
        self._partition = partition
        self._spare_pool = spare_pool
        self._files = files or Files()
        self._choose_offer = functools.partial(
            Offer.choose, self._files, cpu_set, smt, others or {},
            reserved_ppm, placement,
        )  # fmt: skip
        self._lock = threading.Lock()
        #: Since when the kernel has held bandwidth for groups that are gone.
        self._unowned_since_s: float | None = None

    @classmethod
    def from_options(
        cls, options: Options, files: Files | None = None
    ) -> Self:
        """Make a host with these options.

        :returns: a host that has read nothing yet
        """
        return cls(**vars(options), files=files)

    # Capability

    def look(self) -> Capability:
        """Read the capability of the host, and change nothing.

        :returns: the capability
        :raises NoRTInterface: if the kernel offers nothing, with the remedy
        :raises HostNotPrepared: if the host's set-up is in the way, with the
            numbers
        """
        self._backend = probe.find_backend(self._files)
        self.offer = self._choose_offer()
        self._backend.reserved_ppm = self.offer.reserved_ppm
        self._backend.pool = self._parse_pool()
        self.capability = self._backend.look(self._partition)
        return self.capability

    def _parse_pool(self) -> Reservation | None:
        """Read the option.

        :raises HostNotPrepared: if it is no pool
        """
        if self._spare_pool is None:
            return None
        try:
            return Reservation.parse(self._spare_pool)
        except exception.InvalidReservation as err:
            raise exception.HostNotPrepared(
                f'[nova_rt] spare_pool: {err}'
            ) from err

    def start(self) -> Capability:
        """Read the capability of the host, and prepare the partition.

        :returns: the capability
        :raises NoRTInterface: if the kernel offers nothing, or does not hold
            a reservation that it accepts
        :raises HostNotPrepared: if the host's set-up is in the way, with the
            numbers
        """
        self._files.check_helper()
        found = self.look()
        if not found.prepared:
            found = self._backend.prepare(found)
            LOG.info('Prepared the partition %s', found.partition)
        self._backend.set_pool(found)
        probe.self_test(self._backend, found)
        self.capability = found
        self.refresh()
        capacity = self.capacity()
        if self.offer.left_out:
            LOG.warning('CPUs not offered: %s', self.offer.left_out)
        LOG.info(
            'RT interface %s (%s, sum per %s): %s ppm on CPUs %s',
            found.name, found.enforcement, found.scope, capacity.total_ppm,
            cpulist.render(capacity.cpus),
        )  # fmt: skip
        if capacity.spare is not None:
            LOG.info('Pool of spare bandwidth: %s us', capacity.spare)
        return found

    def check_helper(self) -> None:
        """See :meth:`.Files.check_helper`; the helper then runs a minute."""
        self._files.check_helper()

    def check_delegation(self) -> None:
        """Require that libvirt gives a container's root its own groups only.

        :raises HostNotPrepared: if libvirt would give it more
        """
        ownership.check_delegation(self._files)

    def check_children(self) -> None:
        """See :func:`.lxc.check_children`."""
        lxc.check_children(self._files)

    def find_no_fuse(self) -> str | None:
        """See :func:`.lxc.find_no_fuse`."""
        return lxc.find_no_fuse(self._files)

    def refresh(self) -> None:
        """Read the capability again, once: others reserve bandwidth, too.

        This never waits for the kernel or a lock: callers hold Nova's claim
        lock.

        :raises HostNotPrepared: if it cannot be read
        """
        try:
            found = self._backend.refresh(self.capability)
            self.capability = self._backend.keep_pool(found)
        except OSError as err:
            raise exception.HostNotPrepared(
                f"cannot read the kernel's bandwidth: {err.strerror} "
                f'({errno.errorcode.get(err.errno or 0, "?")})'
            ) from err
        if not self.capability.unowned:
            self._unowned_since_s = None
        elif self._unowned_since_s is None:
            self._unowned_since_s = monotonic()

    @property
    def _expected(self) -> Capability:
        """The capability, with the bandwidth that the kernel will release.

        The kernel releases the bandwidth of a deleted server a little later:
        a host that has read too soon would reject the next server until its
        next audit. :meth:`place` waits for the release. Bandwidth that is
        still held after ``_EXPECTED_S`` does not count any more.
        """
        since_s = self._unowned_since_s
        if since_s is None or monotonic() - since_s > _EXPECTED_S:
            return self.capability
        return self.capability.with_unowned()

    def capacity(self) -> admission.Capacity:
        """Compute the capacity of the offered CPUs.

        :returns: ppm of each CPU, and of the host where the kernel sums over
            it, by the last :meth:`refresh`
        """
        return self.offer.capacity(self._expected.ceiling)

    def free(
        self,
        claims: Iterable[record.Record],
        returned: Mapping[int, int] | None = None,
    ) -> admission.Capacity:
        """Compute the capacity that is free of claims.

        It is limited by the kernel's own report of free bandwidth, if any:
        groups in the partition may hold bandwidth without a claim.

        :param returned: CPU -> ppm that groups hold, and return if asked
        :returns: ppm of each CPU, and of the host where the kernel sums over
            it, by the last :meth:`refresh`
        """
        return self.offer.free(self._expected.after(returned or {}), claims)

    def place(
        self,
        claims: Collection[record.Record],
        request: Request,
        held: record.Record | None = None,
        returned: Mapping[int, int] | None = None,
        patience: cgroup.Patience | None = None,
    ) -> tuple[int, ...]:
        """Choose CPUs for a server, given the claims of all others.

        The kernel releases the bandwidth of a removed group a little later.
        If a server would fit only with that bandwidth, this reads it again
        for at most ``_CLAIM_PATIENCE_S``, under Nova's claim lock. Beside it,
        only :meth:`.Boosts.give_way` holds up that lock.

        :param held: the server's present claim, one of these, for a change of
            its reservation
        :param returned: as for :meth:`free`
        :param patience: shared by the calls for one claim; None for one call
        :returns: the CPUs
        :raises HostNotPrepared: if the kernel's bandwidth cannot be read
        :raises InsufficientBandwidth: if it does not fit, with the numbers
        :raises TooLarge: if a change would not fit on an empty host
        """
        patience = patience or make_claim_patience()
        while True:
            self.refresh()
            found = self.capability.after(returned or {})
            try:
                free = self.offer.free(found, claims)
                return admission.place(free, request, held)
            except exception.InsufficientBandwidth:
                if not self.offer.may_fit(found, claims, request, held):
                    if held is not None:
                        self._check_size(request)
                    raise
                if not patience.pause():
                    raise

    def _check_size(self, request: Request) -> None:
        try:
            admission.place(self.capacity(), request)
        except exception.InsufficientBandwidth as err:
            raise exception.TooLarge(
                err.asked_ppm, err.cpus, err.free_ppm, err.rule
            ) from err

    # Containers

    def check_promise(self, rec: record.Record) -> None:
        """Require that this kernel keeps the promise a server was sold with.

        :raises WeakerPromise: if the kernel enforces less, or the host has
            lost the pool of spare bandwidth that the server uses
        """
        sold, found = rec.request.enforcement, self.capability
        if not found.enforcement.fulfils(sold):
            raise exception.WeakerPromise(
                f'reservation {rec.request.reservation} us on CPUs '
                f'{cpulist.render(rec.cpus)} was sold as {sold}, and the '
                f'kernel of this host, with {found.name}, does no more than '
                f'{found.enforcement}: boot the kernel that it had, or resize '
                'the server to a flavor with rt:enforcement=limit'
            )
        wish, pool = rec.request.spare, found.ceiling.spare
        if wish is not None and not spare.covers(pool, wish):
            raise spare.NoPool(
                f'{spare.describe_missing(pool, wish)}: set [nova_rt] '
                'spare_pool back, or resize the server to another flavor'
            )

    def apply(
        self,
        pid: int,
        rec: record.Record,
        patience: cgroup.Patience | None = None,
        policy: bool = True,
    ) -> None:
        """Make the kernel hold a container's reservation.

        Repairs its cpusets, writes the differences, gives the container's
        tasks the requested policy, and reads all back. Only the host's root
        can change it then. Nothing is written if the kernel holds it already.

        :param patience: time to wait for returning bandwidth, shared by
            several containers; None for the time of one
        :param policy: False to leave the policies, which programs of a
            running container may have changed
        :raises ReservationNotApplied: if the kernel does not hold it
        """

        def hold() -> Any:
            with self._lock:
                found = self._find(pid)
                self._backend.hold(self.capability, found, rec)
            return found

        try:
            found = (patience or cgroup.Patience()).repeat(hold)
            if policy:
                self._backend.set_policy(found, rec)
            unheld = self._backend.find_difference(found, rec)
            differs = unheld or self._find_rest(found, rec)
            if policy:
                differs = differs or self._backend.check_policy(found, rec)
        except OSError as err:
            raise self._not_applied(err, rec) from err
        if differs is not None:
            raise exception.ReservationNotApplied(
                differs, verdict=unheld is not None
            )

    def has_process(self, pid: int) -> bool:
        """Tell whether the process of a container has not ended.

        :returns: True if that cannot be known: /proc may hide it
        """
        proc = self._files.proc
        return (proc / str(pid)).exists() or not (proc / '1').exists()

    def take_groups(self, pid: int) -> None:
        """See :meth:`.Backend.protect`, of a domain's ID."""
        with self._lock:
            self._backend.protect(self._find(pid))

    def limit_tasks(self, pid: int, most: int) -> None:
        """Limit the number of tasks of a container.

        :param most: tasks, the libvirt_lxc process included
        :raises OSError: with the kernel's errno
        """
        self._backend.limit_tasks(self._find(pid), most)

    def check(self, pid: int, rec: record.Record) -> str | None:
        """Compare the kernel's reservation with a record; not the policies.

        :returns: None if they agree, else the difference or the read error,
            as a sentence
        """
        try:
            return self.compare(pid, rec)
        except OSError as err:
            return str(self._not_applied(err, rec))

    def compare(self, pid: int, rec: record.Record) -> str | None:
        """Do the same as :meth:`check`, but raise read errors.

        :returns: None if they agree, else the difference as a sentence
        :raises OSError: with the kernel's errno
        """
        found = self._find(pid)
        return self._backend.find_difference(found, rec) or self._find_rest(
            found, rec
        )

    def give_missing_policy(self, pid: int, rec: record.Record) -> bool:
        """Give a container's tasks their policy if none is real-time.

        Only for tasks that may have missed it at their start: programs may
        change their policy later.

        :returns: whether no task was real-time
        :raises OSError: with the kernel's errno
        """
        found = self._find(pid)
        if self._backend.check_policy(found, rec) is None:
            return False
        self._backend.set_policy(found, rec)
        return True

    def observe(
        self, pid: int, rec: record.Record
    ) -> tuple[str | None, Mapping[int, Usage] | None, record.Record]:
        """Read the kernel's reservation and usage of a container, only.

        :returns: the difference as in :meth:`check`, :meth:`read_usage`, and
            :meth:`read_held`
        :raises OSError: with the kernel's errno
        """
        found = self._find(pid)
        rec = self._read_held(found, rec)
        return (
            self._backend.find_difference(found, rec)
            or self._backend.find_unserved(found, rec),
            self._backend.read_usage(found),
            rec,
        )

    def find_absent(self, claims: Iterable[record.Record]) -> set[int]:
        """Find claimed CPUs that no container can use now.

        They are off line, or not in the cpuset of the partition.

        :returns: their numbers
        :raises OSError: with the kernel's errno
        """
        present = set(cpus.read_online(self._files))
        allowed = self._backend.read_allowed(self.capability)
        if allowed is not None:
            present.intersection_update(allowed)
        return {cpu for claim in claims for cpu in claim.cpus} - present

    def find_outside(self, pid: int) -> pathlib.Path | None:
        """See :meth:`.Backend.find_outside`, of a domain's ID."""
        return self._backend.find_outside(self.capability, pid)

    def read_usage(self, pid: int) -> Mapping[int, Usage] | None:
        """See :meth:`.Backend.read_usage`, of a domain's ID."""
        return self._backend.read_usage(self._find(pid))

    def find_usage(self, pid: int) -> UsageSource | None:
        """See :meth:`.Backend.find_usage`, of a domain's ID."""
        return self._backend.find_usage(self._find(pid))

    def read_held(self, pid: int, rec: record.Record) -> record.Record:
        """Read the runtime that the kernel holds for a server that adapts.

        :param rec: its record
        :returns: the record with that runtime; the same if it does not adapt,
            or the kernel holds something else than a runtime in its bounds
        :raises OSError: with the kernel's errno
        """
        return self._read_held(self._find(pid), rec)

    def _read_held(self, found: Any, rec: record.Record) -> record.Record:
        request = rec.request
        if not request.adapts:
            return rec
        held = self._backend.read_held(found)
        if (
            held is None
            or held.period_us != request.reservation.period_us
            or held.runtime_us is None
            or request.clamp(held.runtime_us) != held.runtime_us
        ):
            return rec
        return rec.with_runtime(held.runtime_us)

    def read_pool_usage(self) -> Mapping[int, Usage]:
        """See :meth:`.Backend.read_pool_usage`; no file without a pool."""
        found = self.capability
        if found.ceiling.spare is None:
            return {}
        return self._backend.read_pool_usage(found)

    def read_usages(
        self,
    ) -> list[tuple[str, Share, Mapping[int, Usage]]] | None:
        """See :meth:`.Backend.read_usages`."""
        return self._backend.read_usages(self.capability)

    def reclaim(self, running: Collection[int]) -> list[OrphanedGroup]:
        """See :meth:`.Backend.reclaim`."""
        return self._backend.reclaim(self.capability, running)

    def sweep_task_limits(self) -> None:
        """See :meth:`.Backend.sweep_task_limits`."""
        self._backend.sweep_task_limits(self.capability)

    def _find(self, pid: int) -> Any:
        """Find a container, of a type known to the back end alone."""
        return self._backend.find_container(self.capability, pid)

    def _find_rest(self, found: Any, rec: record.Record) -> str | None:
        """Find a difference that leaves the reservation itself intact."""
        return self._backend.find_exposed(
            found
        ) or self._backend.find_unserved(found, rec)

    def _not_applied(
        self, err: OSError, rec: record.Record
    ) -> exception.ReservationNotApplied:
        found = self.capability
        return capability.make_refusal(
            err, found, rec, lambda: self._backend.describe(found, rec.cpus)
        )
