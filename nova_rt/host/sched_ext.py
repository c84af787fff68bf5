# SPDX-License-Identifier: Apache-2.0
"""The back end for stock kernels with nova-rt-sched, a scheduler in BPF.

The daemon (``scx/`` of this project) loads a scheduler of the class sched_ext,
holds the reservations of control groups on cgroup v2, and admits them CPU by
CPU. Tasks stay ordinary ones: real-time tasks of the host stand above the
scheduler. A reservation costs two switches in each period beside its runtime.
"""

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import errno
import pathlib
from typing import Self

from nova_rt import exception
from nova_rt.host import capability, cgroup, cpusets
from nova_rt.host import cpus as host_cpus
from nova_rt.host.capability import Capability, Refusal
from nova_rt.host.cgroup import Container
from nova_rt.host.files import Files
from nova_rt.host.interface import Interface, Share, Usage
from nova_rt.host.v2_backend import V2Backend
from nova_rt.reservation import cpulist
from nova_rt.reservation.admission import Capacity, Scope
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.reservation.record import Record
from nova_rt.reservation.reservation import Reservation

INTERFACE = Interface(
    'v2-sched-ext', 'cgroup v2', Enforcement.SOFT, Scope.CPU
)  # fmt: skip

#: The smallest that the daemon takes (scx/src/table.h).
_SMALLEST = Reservation(5_000, 1_000_000)


@contextlib.contextmanager
def _reading(request: str) -> Iterator[None]:
    """Decorate a function that reads an answer of the daemon.

    :raises OSError: EIO if it is not that of scx/README.rst
    """
    try:
        yield
    except (KeyError, ValueError) as err:
        raise OSError(
            errno.EIO,
            f'nova-rt-sched is of another version: {request} reads {err!r}',
        ) from err


@dataclasses.dataclass(frozen=True)
class Held:
    """A reservation that the daemon holds.

    :ivar share: of each of its CPUs
    """

    share: Share
    cpus: tuple[int, ...]


class SchedExt(V2Backend):
    """The back end for nova-rt-sched: groups in a group use its share."""

    interface = INTERFACE
    FILES = ()

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        #: The last answer, and the reservations in it. The files of an
        #: exporter give the same answer for all containers.
        self._parsed: tuple[
            list[Mapping[str, str]], dict[pathlib.Path, Held]
        ] = ([], {})

    @classmethod
    def detect(cls, files: Files) -> Self | None:
        """Ask the daemon."""
        if not files.has_scheduler():
            return None
        found = cls(files)
        try:
            found._read_overhead()
        except OSError as err:
            raise exception.NoRTInterface(err.strerror or str(err)) from err
        return found

    # The host

    def look_at(self, partition: pathlib.Path) -> Capability:
        """Read the bandwidth that the daemon offers."""
        try:
            found = self._read_capability(partition)
        except OSError as err:
            raise capability.make_error(err) from err
        if not found.ceiling.total_ppm:
            raise exception.HostNotPrepared(
                f'nova-rt-sched leaves nothing for the partition {partition}: '
                f'other groups hold {capability.render_others(found.others)}'
            )
        return found

    def _read_capability(self, partition: pathlib.Path) -> Capability:
        capacity = Capacity({}, overhead_us=self._read_overhead())
        online = set(host_cpus.read_online(self._files))
        allowed = online.intersection(self.hierarchy.read_cpus_for(partition))
        others: dict[str, int] = {}
        elsewhere = dict.fromkeys(online, 0)
        for group, held in self._read_reservations().items():
            if partition in group.parents:
                continue
            ppm = capacity.count(_to_reservation(held.share))
            others[str(group.relative_to(self.hierarchy.root))] = ppm
            for cpu in held.cpus:
                elsewhere[cpu] = elsewhere.get(cpu, 0) + ppm
        ppm_of = self._read_cpus()
        ceiling = {
            cpu: ppm_of[cpu][0] - elsewhere[cpu] if cpu in allowed else 0
            for cpu in sorted(online & ppm_of.keys())
        }
        return Capability(
            INTERFACE,
            dataclasses.replace(
                capacity,
                cpus={cpu: max(0, ppm) for cpu, ppm in ceiling.items()},
            ),
            partition,
            others,
            self.hierarchy.is_prepared(partition),
            {cpu: ppm_of[cpu][1] if cpu in allowed else 0 for cpu in ceiling},
        )

    def has_room(self, found: Capability) -> bool:
        """Whether the daemon has the smallest reservation left everywhere."""
        least = found.ceiling.count(_SMALLEST)
        left = self._read_capability(found.partition).left or {}
        cpus = self.hierarchy.read_cpus_in(found.partition)
        return all(left.get(cpu, 0) >= least for cpu in cpus)

    def self_test_in(self, group: pathlib.Path) -> str | None:
        """Reserve the smallest share, look at it, and take it away."""
        wish = Held(
            Share.from_reservation(_SMALLEST),
            self.hierarchy.read_cpus_in(group),
        )
        self._reserve(group, wish)
        held = self._read_reservations().get(group)
        self._files.release(group)
        return None if held == wish else f'{wish} became {held} in {group}'

    def refresh(self, found: Capability) -> Capability:
        """Read all again: others reserve bandwidth, too."""
        return self._read_capability(found.partition)

    @_reading('cpus')
    def describe(self, found: Capability, cpus: tuple[int, ...]) -> str:
        """Describe the daemon's report on these CPUs."""
        return '; '.join(
            f'CPU {row["cpu"]} has {row["ceiling_ppm"]} ppm, groups hold '
            f'{row["held_ppm"]}'
            for row in self._ask('cpus')
            if int(row['cpu']) in cpus
        )

    # Containers

    def reserve(
        self, found: Capability, container: Container, rec: Record
    ) -> None:
        """Make one level hold the share and all others none."""
        self.hierarchy.enable_cpu(found.partition.parent)
        cpusets.repair(self.hierarchy, container, found.partition, rec.cpus)
        for level in container.levels:
            self.hierarchy.enable_cpu(level.parent)
        all_held = self._read_reservations()
        one = self._choose_level(container, rec, all_held)
        for level in container.levels:
            if level != one and level in all_held:
                self._files.release(level)
        wish = _make_wish(rec)
        if all_held.get(one) != wish:
            self._reserve(one, wish)

    def find_difference(self, container: Container, rec: Record) -> str | None:
        """Check that one level holds the share on the CPUs, and no other."""
        all_held = self._read_reservations()
        try:
            one = self._choose_level(container, rec, all_held)
        except exception.ReservationNotApplied as err:
            return str(err)
        for level in container.levels:
            held = all_held.get(level)
            wish = _make_wish(rec) if level == one else None
            if held != wish:
                return (
                    f'{level}: expected {_render(wish)}, found {_render(held)}'
                )
        return None

    def read_share(self, group: pathlib.Path) -> Share:
        """Read the share of a group, which may be unbounded."""
        held = self._read_reservations().get(group)
        return held.share if held else Share(None, _SMALLEST.period_us)

    def set_policy(self, container: Container, rec: Record) -> None:
        """Leave the tasks ordinary ones, which the scheduler serves."""

    def check_policy(self, container: Container, rec: Record) -> str | None:
        """Find nothing: ordinary tasks are served."""
        return None

    # Usage

    @_reading('stat')
    def read_group_usage(self, group: pathlib.Path) -> dict[int, Usage]:
        """Ask the daemon, which counts it."""
        return {
            int(row['cpu']): _parse_usage(row)
            for row in self._ask(f'stat {self._name(group)}')
        }

    def find_reserving(self, container: Container) -> pathlib.Path | None:
        """Find the outermost level that the daemon has in its list."""
        all_held = self._read_reservations()
        for level in container.levels:
            if level in all_held:
                return level
        return None

    @_reading('stat')
    def read_usages(
        self, found: Capability
    ) -> list[tuple[str, Share, Mapping[int, Usage]]]:
        """Read the usage of each group with a reservation."""
        usages: dict[pathlib.Path, dict[int, Usage]] = {}
        shares: dict[pathlib.Path, Share] = {}
        for row in self._ask('stat'):
            group = self._resolve(row['path'])
            if found.partition in group.parents:
                usage = usages.setdefault(group, {})
                usage[int(row['cpu'])] = _parse_usage(row)
                shares[group] = Share.parse(
                    row['runtime_us'], row['period_us']
                )
        return [
            (str(group.relative_to(found.partition)), shares[group], usage)
            for group, usage in usages.items()
        ]

    # The daemon

    def _ask(self, request: str) -> list[Mapping[str, str]]:
        return self._files.ask_scheduler(request)

    @_reading('status')
    def _read_overhead(self) -> int:
        """Read the time that a reservation costs in each period.

        :returns: microseconds
        :raises OSError: EIO if the kernel has ended the scheduler
        """
        (row,) = self._ask('status')
        return 2 * int(row['switch_us'])

    @_reading('cpus')
    def _read_cpus(self) -> dict[int, tuple[int, int]]:
        """Read the bandwidth of each CPU.

        :returns: CPU -> all that is offered, and what is free, in ppm
        """
        return {
            int(row['cpu']): (int(row['ceiling_ppm']), int(row['free_ppm']))
            for row in self._ask('cpus')
        }

    @_reading('list')
    def _read_reservations(self) -> dict[pathlib.Path, Held]:
        """Read all reservations.

        :returns: group -> its reservation
        """
        rows, parsed = self._ask('list'), self._parsed
        if rows is not parsed[0]:
            held = {
                self._resolve(row['path']): Held(
                    Share.parse(row['runtime_us'], row['period_us']),
                    cpulist.parse(row['cpus']),
                )
                for row in rows
            }
            parsed = self._parsed = rows, held
        return parsed[1]

    def _reserve(self, group: pathlib.Path, wish: Held) -> None:
        """Reserve for a group.

        :raises Refusal: if the daemon judges the numbers
        """
        assert wish.share.runtime_us is not None
        try:
            self._files.reserve(
                group, wish.share.runtime_us, wish.share.period_us,
                cpulist.render(wish.cpus),
            )  # fmt: skip
        except OSError as err:
            what = f'cannot reserve {_render(wish)} for {group}'
            again = cgroup.restate(err, what)
            if err.errno in cgroup.VERDICTS:
                raise Refusal(again.errno, again.strerror) from err
            raise again from err

    def _choose_level(
        self,
        container: Container,
        rec: Record,
        all_held: Mapping[pathlib.Path, Held],
    ) -> pathlib.Path:
        return cpusets.choose_level(
            self.hierarchy, container, rec.cpus, all_held.__contains__
        )

    def _resolve(self, name: str) -> pathlib.Path:
        return self.hierarchy.root / name.lstrip('/')

    def _name(self, group: pathlib.Path) -> str:
        return f'/{group.relative_to(self.hierarchy.root)}'


def _make_wish(rec: Record) -> Held:
    return Held(Share.from_reservation(rec.request.reservation), rec.cpus)


def _to_reservation(share: Share) -> Reservation:
    assert share.runtime_us is not None
    return Reservation(share.runtime_us, share.period_us)


def _render(held: Held | None) -> str:
    if held is None:
        return 'nothing'
    return f'{held.share} on CPUs {cpulist.render(held.cpus)}'


def _parse_usage(row: Mapping[str, str]) -> Usage:
    return Usage(
        int(row['periods']), int(row['throttles']), int(row['used_ns']) // 1000
    )
