# SPDX-License-Identifier: Apache-2.0
"""The compute host as nova_rt sees it: its capacity and its containers.

The one module of the host layer that others call.
"""

from collections.abc import Iterable, Mapping
import logging
import pathlib
import threading

from nova_rt import admission, cpulist, exception, record
from nova_rt.extra_specs import Policy
from nova_rt.host import capability, cgroup, policy, supply, topology
from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.host.interfaces import Held, Usage

LOG = logging.getLogger(__name__)


class Host:
    """Reservations of this host.

    :param cpu_set: CPUs that servers may use, a list of ranges; None for all
        that are online
    :param smt: whether all hardware threads of a core are offered
    :param reserved_ppm: bandwidth to keep back, in ppm of a CPU: on each CPU,
        or once where the kernel sums over the host
    :param partition: group that libvirt puts containers in, below the root
        of the hierarchy; None for libvirt's default
    :param files: where the host's files are

    :ivar capability: what the kernel offers, after :meth:`start`
    """

    capability: Capability

    def __init__(
        self,
        *,
        cpu_set: str | None,
        smt: bool,
        reserved_ppm: int,
        partition: str | None,
        files: Files | None = None,
    ) -> None:
        self._cpu_set = cpu_set
        self._smt = smt
        self._reserved_ppm = reserved_ppm
        self._files = files or Files()
        self._partition = partition or cgroup.default_partition(self._files)
        self._lock = threading.Lock()

    def look(self) -> Capability:
        """Find out what the kernel offers, by reading alone.

        :raises NoRTInterface: if the kernel offers nothing, with what would
            help
        :raises HostNotPrepared: if the host's set-up is in the way, with the
            numbers
        """
        interface = capability.find(self._files)
        self._tree = cgroup.Tree(self._files, interface)
        self._cpus = topology.offered(self._files, self._cpu_set, self._smt)
        self.capability = capability.look(
            self._files, interface, self._partition
        )
        return self.capability

    def start(self) -> Capability:
        """Find out what the kernel offers, and prepare the partition.

        :raises NoRTInterface: if the kernel offers nothing or does not hold
            what it accepts
        :raises HostNotPrepared: if the host's set-up is in the way, with the
            numbers
        """
        found = self.look()
        if not found.prepared:
            found = capability.prepare(self._files, found)
            LOG.info('Prepared the partition %s', found.partition)
        capability.try_out(self._files, found)
        self.capability = found
        capacity = self.capacity()
        LOG.info(
            'RT interface %s (%s, sum per %s): %s ppm on CPUs %s',
            found.name,
            found.enforcement,
            found.scope,
            capacity.total_ppm,
            cpulist.render(capacity.cpus),
        )
        return found

    def capacity(self) -> admission.Capacity:
        """What servers can be promised on the CPUs that are offered.

        Read anew where the kernel reports it: others reserve bandwidth, too.

        :raises HostNotPrepared: if it cannot be read
        """
        self._refresh()
        return self._offered(self.capability.ceiling)

    def free(self, claims: Iterable[admission.Claim]) -> admission.Capacity:
        """What can still be promised beside these claims.

        Where the kernel reports what it has left, not more than that:
        something may hold bandwidth in the partition that claims nothing.

        :raises HostNotPrepared: if it cannot be read
        """
        now = self._refresh()
        free = self._offered(self.capability.ceiling).free(claims)
        if now is None:
            return free
        left = self._offered(admission.Capacity(now.left)).cpus
        return admission.Capacity(
            {cpu: min(ppm, left[cpu]) for cpu, ppm in free.cpus.items()}
        )

    def _refresh(self) -> supply.Supply | None:
        """Read what the kernel reports; None where it does not."""
        found = self.capability
        if not found.interface.reports:
            return None
        try:
            with self._lock:
                now = supply.read(self._tree, found.partition)
        except OSError as err:
            raise exception.HostNotPrepared(
                f'cannot read what the kernel has: {err.strerror}'
            ) from err
        self.capability = capability.as_reported(
            found.interface, found.partition, now, found.prepared
        )
        return now

    def _offered(self, ceiling: admission.Capacity) -> admission.Capacity:
        """What is left of a ceiling for servers, on the CPUs offered."""
        cpus = {
            cpu: max(0, ceiling.cpus.get(cpu, 0) - self._reserved_ppm)
            for cpu in self._cpus
        }
        host = ceiling.host_ppm
        if host is not None:
            host = max(0, host - self._reserved_ppm)
        return admission.Capacity(cpus, host)

    def apply(self, pid: int, rec: record.Record) -> None:
        """Make the kernel hold a container's reservation.

        Writes what differs, reads it back, and gives the container's tasks
        their policy. Nothing is written if the kernel holds it already.

        :param pid: the container's libvirt_lxc process, the domain's ID
        :raises ReservationNotApplied: if the kernel does not hold it
        """
        try:
            with self._lock:
                group = self._hold(pid, rec)
            self._set_policy(group, pid, rec)
        except OSError as err:
            raise self._not_applied(err, rec) from err
        differs = self.check(pid, rec)
        if differs is not None:
            raise exception.ReservationNotApplied(differs)

    def check(self, pid: int, rec: record.Record) -> str | None:
        """Compare what the kernel holds with what it should.

        :param pid: the container's libvirt_lxc process, the domain's ID
        :returns: None if it is the same, else what differs, as a sentence
        """
        try:
            return self._differs(pid, rec)
        except OSError as err:
            return str(self._not_applied(err, rec))

    def read(self, pid: int) -> tuple[Held, tuple[int, ...]]:
        """What the kernel holds for a container, and the CPUs it may use.

        :param pid: the container's libvirt_lxc process, the domain's ID
        :raises OSError: with the kernel's errno
        """
        group = self._tree.of_process(pid)
        return self._tree.read(group), self._tree.cpus_of(pid)

    def usage(self, pid: int) -> Mapping[int, Usage] | None:
        """CPU -> what a container did with its reservation on it.

        :param pid: the container's libvirt_lxc process, the domain's ID
        :returns: None where the kernel does not say
        :raises OSError: with the kernel's errno
        """
        if not self._tree.interface.reports:
            return None
        group = self._tree.of_process(pid)
        levels = self._tree.levels(group, self.capability.partition)
        for level in levels:
            if not self._tree.read(level).without_bound:
                return self._tree.usage(level)
        return {}

    def usages(self) -> list[tuple[str, Held, Mapping[int, Usage]]]:
        """What is used of each reservation in the partition.

        :returns: the name of a group in the partition, what it holds, and CPU
            -> what it did with it; nothing where the kernel does not say
        :raises OSError: with the kernel's errno
        """
        if not self._tree.interface.reports:
            return []
        partition = self.capability.partition
        return [
            (str(group.relative_to(partition)), held, self._tree.usage(group))
            for group, held in self._tree.reservations(partition)
        ]

    def _hold(self, pid: int, rec: record.Record) -> pathlib.Path:
        group = self._tree.of_process(pid)
        levels = self._tree.levels(group, self.capability.partition)
        if self._tree.interface.reports:
            self._tree.enable(self.capability.partition)
            one = self._one_level(levels, rec)
            self._tree.hold_in(levels, one, self._wish(rec))
            return group
        self._keep_prepared()
        self._tree.hold(levels, self._wish(rec))
        return group

    def _one_level(
        self, levels: list[pathlib.Path], rec: record.Record
    ) -> pathlib.Path:
        """The group to reserve for, where those in it live on it.

        The outermost one that is confined to the server's CPUs, which are
        then those of the reservation. Below systemd libvirt confines a group
        in the scope, not the scope itself.

        :raises ReservationNotApplied: if none is
        :raises OSError: with the kernel's errno
        """
        for level in levels:
            if self._tree.cpus_in(level) == rec.cpus:
                return level
        raise exception.ReservationNotApplied(
            self._other_cpus(levels[-1], rec, self._tree.cpus_in(levels[-1]))
        )

    @staticmethod
    def _other_cpus(
        group: pathlib.Path, rec: record.Record, cpus: tuple[int, ...]
    ) -> str:
        return (
            f'{group.name} was to run on CPUs {cpulist.render(rec.cpus)} '
            f'and may run on {cpulist.render(cpus)}'
        )

    def _keep_prepared(self) -> None:
        """Give the partition its bandwidth again, should it have lost it.

        :raises OSError: with the kernel's errno
        """
        found = self.capability
        held = self._tree.read(found.partition)
        if all(held.on(cpu) == ppm for cpu, ppm in found.ceiling.cpus.items()):
            return
        LOG.warning(
            'Partition %s holds %s, which is not the %s ppm it was given; '
            'giving it again. Something else writes to it.',
            found.partition,
            held,
            max(found.ceiling.cpus.values()),
        )
        try:
            capability.prepare(self._files, found)
        except exception.HostError as err:
            raise exception.ReservationNotApplied(
                f'the partition lost its bandwidth: {err}'
            ) from err

    def _set_policy(
        self, group: pathlib.Path, pid: int, rec: record.Record
    ) -> None:
        request = rec.request
        if request.policy is not Policy.OTHER:
            number = policy.NUMBERS[request.policy]
            try:
                self._files.set_policy(
                    group,
                    pid,
                    number,
                    request.priority,
                    self._tree.interface.reports,
                )
            except OSError as err:
                what = f'cannot give the tasks of {group} the policy '
                what += f'{request.policy} {request.priority}'
                raise cgroup.told(err, what) from err

    def _differs(self, pid: int, rec: record.Record) -> str | None:
        group = self._tree.of_process(pid)
        wish = self._wish(rec)
        levels = self._tree.levels(group, self.capability.partition)
        if self._tree.interface.reports:
            differs = self._differs_in_reports(levels, wish, rec)
            return differs or self._differs_in_policy(group, pid, rec)
        for level in levels:
            held = self._tree.read(level)
            if held != wish:
                return f'{level} was to hold {wish} and holds {held}'
        cpus = self._tree.cpus_of(pid)
        if cpus != rec.cpus:
            return self._other_cpus(group, rec, cpus)
        return self._differs_in_policy(group, pid, rec)

    def _differs_in_reports(
        self, levels: list[pathlib.Path], wish: Held, rec: record.Record
    ) -> str | None:
        """Whether one level holds the share, and has it on the CPUs."""
        try:
            one = self._one_level(levels, rec)
        except exception.ReservationNotApplied as err:
            return str(err)
        for level in levels:
            held = self._tree.read(level)
            if level == one and held != wish:
                return f'{level} was to hold {wish} and holds {held}'
            if level != one and not held.without_bound:
                return f'{level} was to hold nothing and holds {held}'
        return self._tree.differs(one, wish, rec.cpus)

    def _differs_in_policy(
        self, group: pathlib.Path, pid: int, rec: record.Record
    ) -> str | None:
        """Whether the policy was never given.

        A program may choose another policy for its tasks, so one task that
        has a real-time policy is enough.
        """
        request = rec.request
        tasks = self._tree.tasks(group)
        if self._tree.interface.reports:
            tasks = self._tree.tasks_inside(group)
        tasks -= self._threads(pid)
        if request.policy is Policy.OTHER or not tasks:
            return None
        if policy.any_real_time(self._files, tasks):
            return None
        return (
            f'tasks of {group.name} were to have the policy {request.policy} '
            f'{request.priority} and none of {len(tasks)} is real-time'
        )

    def _threads(self, pid: int) -> set[int]:
        path = self._files.proc / str(pid) / 'task'
        return {int(task.name) for task in path.iterdir()}

    def _wish(self, rec: record.Record) -> Held:
        reservation = rec.request.reservation
        return self._tree.interface.wish(
            reservation.runtime_us, reservation.period_us, rec.cpus
        )

    def _not_applied(
        self, err: OSError, rec: record.Record
    ) -> exception.ReservationNotApplied:
        request = rec.request
        what = (
            f'reservation {request.reservation} us on CPUs '
            f'{cpulist.render(rec.cpus)} is not held: {err.strerror}'
        )
        advice = cgroup.ADVICE.get(err.errno or 0)
        numbers = self._numbers(rec)
        if numbers:
            advice = f'{advice}; {numbers}' if advice else numbers
        return exception.ReservationNotApplied(what, err.errno or 0, advice)

    def _numbers(self, rec: record.Record) -> str:
        """What is held in the partition now, for a refusal."""
        partition = self.capability.partition
        try:
            if self._tree.interface.reports:
                now = supply.read(self._tree, partition)
                return '; '.join(
                    f'CPU {cpu} has {now.total.get(cpu, 0)} ppm, groups in '
                    f'{partition} hold {now.inside.get(cpu, 0)}, others '
                    f'{now.of_others(cpu)}'
                    for cpu in rec.cpus
                )
            held = self._tree.read(partition)
            inside = self._tree.held_inside(partition).values()
        except OSError as err:
            return f'{partition} cannot be read ({err.strerror})'
        used = sum(each.cost_ppm for each in inside)
        return f'{partition} holds {held}, the groups in it {used} ppm'
