# SPDX-License-Identifier: Apache-2.0
"""The compute host as nova_rt sees it: its capacity and its containers.

The one module of the host layer that others call.
"""

import logging
import pathlib
import threading

from nova_rt import admission, cpulist, exception, record
from nova_rt.extra_specs import Policy
from nova_rt.virt import capability, cgroup, policy, topology
from nova_rt.virt.capability import Capability
from nova_rt.virt.files import Files
from nova_rt.virt.interfaces import Held

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
            LOG.info('Gave the partition %s its bandwidth', found.partition)
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
        """What servers can be promised on the CPUs that are offered."""
        ceiling = self.capability.ceiling
        cpus = {
            cpu: max(0, ceiling.cpus[cpu] - self._reserved_ppm)
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

    def _hold(self, pid: int, rec: record.Record) -> pathlib.Path:
        group = self._tree.of_process(pid)
        levels = self._tree.levels(group, self.capability.partition)
        self._keep_prepared()
        self._tree.hold(levels, self._wish(rec))
        return group

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
                self._files.set_policy(group, pid, number, request.priority)
            except OSError as err:
                what = f'cannot give the tasks of {group} the policy '
                what += f'{request.policy} {request.priority}'
                raise cgroup.told(err, what) from err

    def _differs(self, pid: int, rec: record.Record) -> str | None:
        group = self._tree.of_process(pid)
        wish = self._wish(rec)
        for level in self._tree.levels(group, self.capability.partition):
            held = self._tree.read(level)
            if held != wish:
                return f'{level} was to hold {wish} and holds {held}'
        cpus = self._tree.cpus_of(pid)
        if cpus != rec.cpus:
            return (
                f'{group.name} was to run on CPUs {cpulist.render(rec.cpus)} '
                f'and may run on {cpulist.render(cpus)}'
            )
        return self._differs_in_policy(group, pid, rec)

    def _differs_in_policy(
        self, group: pathlib.Path, pid: int, rec: record.Record
    ) -> str | None:
        """Whether the policy was never given.

        A program may choose another policy for its tasks, so one task that
        has a real-time policy is enough.
        """
        request = rec.request
        tasks = self._tree.tasks(group) - self._threads(pid)
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
        numbers = self._numbers()
        if numbers:
            advice = f'{advice}; {numbers}' if advice else numbers
        return exception.ReservationNotApplied(what, err.errno or 0, advice)

    def _numbers(self) -> str:
        """What is held in the partition now, for a refusal."""
        partition = self.capability.partition
        try:
            held = self._tree.read(partition)
            inside = self._tree.held_inside(partition).values()
        except OSError as err:
            return f'{partition} cannot be read ({err.strerror})'
        used = sum(each.cost_ppm for each in inside)
        return f'{partition} holds {held}, the groups in it {used} ppm'
