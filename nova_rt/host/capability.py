# SPDX-License-Identifier: Apache-2.0
"""What the kernel of this host offers, found by looking and by trying.

:func:`find` and :func:`look` only read. :func:`prepare` gives the partition
its bandwidth, :func:`try_out` makes the kernel hold a reservation for a
moment: only then is it known that it does.
"""

from collections.abc import Mapping
import dataclasses
import errno
import os
import pathlib

from nova_rt import exception
from nova_rt.admission import Capacity, Scope
from nova_rt.extra_specs import Enforcement
from nova_rt.host import cgroup, interfaces, supply, topology
from nova_rt.host.files import Files
from nova_rt.host.interfaces import Interface
from nova_rt.reservation import PPM

NO_INTERFACE = (
    'boot a kernel with CONFIG_RT_GROUP_SCHED=y (and, from Linux 6.16 on, '
    'rt_group_sched=1 where it is off by default) and the cpu controller on '
    'cgroup v1, which limits real-time tasks; or the kernel of this project '
    'or another with hierarchical constant bandwidth servers (HCBS), which '
    'guarantees their bandwidth. A mainline kernel has no RT bandwidth on '
    'cgroup v2.'
)

#: What the fair server of a kernel with HCBS takes of each CPU where its files
#: cannot be read: 50 ms in 1 s (kernel/sched/deadline.c, fair_server_init()).
_FAIR_SERVER_PPM = 50_000

#: Period of the partition's share, microseconds: the bandwidth is exact then.
_PERIOD_US = PPM


@dataclasses.dataclass(frozen=True)
class Capability:
    """What reservations this host can hold.

    :ivar ceiling: what can be promised in all: on each CPU that is online,
        and by the host where the kernel sums over it
    :ivar partition: the group that all containers are in
    :ivar others: ppm that other groups beside the partition hold, by name;
        not part of the ceiling
    :ivar prepared: whether the partition holds the ceiling
    """

    interface: Interface
    ceiling: Capacity
    partition: pathlib.Path
    others: Mapping[str, int]
    prepared: bool

    @property
    def name(self) -> str:
        """The interface's name, as published in the stats."""
        return self.interface.name

    @property
    def enforcement(self) -> Enforcement:
        """Whether the kernel guarantees bandwidth or only limits it."""
        return self.interface.enforcement

    @property
    def scope(self) -> Scope:
        """Over what the kernel sums."""
        return self.interface.scope


def find(files: Files) -> Interface:
    """The interface that the kernel has, by its files in the host's group.

    :raises NoRTInterface: if there is none, with what would help
    """
    for interface in interfaces.ALL:
        root = cgroup.root_of(files, interface.version)
        try:
            texts = {name: files.read(root / name) for name in interface.files}
        except OSError as err:
            if err.errno in (errno.ENOENT, errno.ENOTDIR):
                continue
            raise exception.NoRTInterface(
                f'cannot read {err.filename}: {err.strerror}'
            ) from err
        if interface.reports:
            if _reports(files, root, interface):
                return interface
            continue
        several = len(texts[interface.runtime_file].split()) > 1
        if interface is interfaces.V2_HCBS_MULTI and not several:
            # The same files as V2_HCBS_SCALAR; they differ by a number for
            # each CPU. With one CPU both come to the same.
            continue
        return interface
    raise exception.NoRTInterface(
        f'no file for RT bandwidth in {files.cgroup}: {NO_INTERFACE}'
    )


def _reports(files: Files, root: pathlib.Path, interface: Interface) -> bool:
    """Whether the kernel says what each CPU has, in words that we know.

    :raises NoRTInterface: if it says something else: nobody knows what
    """
    try:
        cgroup.Tree(files, interface).supply()
    except OSError as err:
        if err.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise exception.NoRTInterface(
            f'{root / str(interface.effective_file)} is not understood: '
            f'{err.strerror}'
        ) from err
    return True


def look(files: Files, interface: Interface, partition: str) -> Capability:
    """Read what the kernel can promise to a partition.

    :param partition: name of the group below the hierarchy's root
    :raises HostNotPrepared: if the host's settings leave nothing to promise
    """
    tree = cgroup.Tree(files, interface)
    path = _partition(tree, partition)
    if interface.reports:
        return _look_at_reports(tree, path)
    try:
        cpus = topology.online(files)
        above = tree.read(path.parent)
        others = tree.held_inside(path.parent)
        held = others.pop(path.name, None)
        limits = {cpu: _limit(files, interface, cpu) for cpu in cpus}
    except OSError as err:
        raise _not_prepared(err) from err
    free = {
        cpu: min(limits[cpu], above.on(cpu))
        - sum(other.cost_on(cpu) for other in others.values())
        for cpu in cpus
    }
    taken = {
        name: other.cost_ppm
        for name, other in others.items()
        if other.cost_ppm
    }
    ceiling = _ceiling(interface, free)
    if not ceiling.total_ppm:
        raise exception.HostNotPrepared(
            f'nothing is left for the partition {path}: the group above holds '
            f'{above}, the kernel\'s limit is {max(limits.values())} ppm '
            f'of a CPU, other groups hold {_listed(taken)}: give the group '
            f'above bandwidth by {_source(interface, path.parent)}, or take '
            'it from the others'
        )
    found = Capability(interface, ceiling, path, taken, prepared=False)
    if held is None or held != _share(found, held):
        return found
    return _as_held(found, held)


def _look_at_reports(tree: cgroup.Tree, partition: pathlib.Path) -> Capability:
    try:
        now = supply.read(tree, partition)
        prepared = partition.is_dir() and all(
            'cpu' in tree.files.read(control).split()
            for control in _controls(partition)
        )
    except OSError as err:
        raise _not_prepared(err) from err
    found = as_reported(tree.interface, partition, now, prepared)
    if not found.ceiling.total_ppm:
        raise exception.HostNotPrepared(
            f'nothing is left for the partition {partition}: {now.source} has '
            f'{max(now.total.values(), default=0)} ppm of a CPU, other '
            f'groups hold {_listed(found.others)}; look at '
            f'{tree.root / str(tree.interface.effective_file)}'
        )
    return found


def as_reported(
    interface: Interface,
    partition: pathlib.Path,
    now: supply.Supply,
    prepared: bool = True,
) -> Capability:
    """The capability of a host whose kernel reports what it has."""
    others = {name: max(held.values()) for name, held in now.others.items()}
    return Capability(
        interface, Capacity(now.ceiling), partition, others, prepared
    )


def prepare(files: Files, found: Capability) -> Capability:
    """Give the partition all that can be promised.

    A host forgets this when it boots. Where the kernel reports what it has,
    the partition needs nothing: what is in it lives on what is above it.

    :returns: the capability as it is now
    :raises HostNotPrepared: with the numbers, if the kernel refuses
    """
    tree = cgroup.Tree(files, found.interface)
    partition = found.partition
    try:
        _make(tree, partition)
        if found.interface.reports:
            return dataclasses.replace(found, prepared=True)
        held = tree.read(partition)
        wish = _share(found, held)
        if held != wish:
            try:
                tree.write(partition, found.interface.raise_to(wish))
            except OSError as err:
                if err.errno != errno.EBUSY or not _may_have_servers(found):
                    raise
                found = _without_fair_servers(files, found)
                wish = _share(found, held)
                tree.write(partition, found.interface.raise_to(wish))
            held = tree.read(partition)
    except OSError as err:
        raise _not_prepared(err, found) from err
    if held != wish:
        raise exception.HostNotPrepared(
            f'{partition} was to hold {wish} and holds {held}: '
            'something else writes to it'
        )
    return _as_held(found, held)


def try_out(files: Files, found: Capability) -> None:
    """Make the kernel hold the smallest reservation for a moment.

    In a group of its own in the partition, which is removed. If the partition
    is full, what is in it is evidence enough.

    :raises NoRTInterface: if the kernel has the files and does not hold it
    :raises HostNotPrepared: if it refuses
    """
    tree = cgroup.Tree(files, found.interface)
    cpus = [cpu for cpu, ppm in found.ceiling.cpus.items() if ppm][:1]
    wish = found.interface.wish(interfaces.SMALLEST_US, _PERIOD_US, cpus)
    probe = found.partition / f'nova-rt-probe-{os.getpid()}'
    differs = None
    try:
        if not _has_room(tree, found, wish, cpus[0]):
            return
        files.make_group(probe)
        try:
            tree.write(probe, found.interface.raise_to(wish))
            held = tree.read(probe)
            if found.interface.reports:
                differs = tree.differs(probe, wish, tree.cpus_in(probe))
            tree.write(probe, found.interface.nothing(held))
        finally:
            files.remove_probe(probe)
    except OSError as err:
        raise _not_prepared(err, found) from err
    if differs is not None:
        raise exception.NoRTInterface(
            f'this kernel has the files of {found.name} and does not hold '
            f'what is written: {differs}'
        )
    if held != wish:
        raise exception.NoRTInterface(
            f'this kernel has the files of {found.name} and does not hold '
            f'what is written: {wish} became {held} in {probe}'
        )


def _has_room(
    tree: cgroup.Tree, found: Capability, wish: interfaces.Held, cpu: int
) -> bool:
    """Whether the partition has room for a trial.

    :raises OSError: with the kernel's errno
    """
    if tree.interface.reports:
        # A group without a cpuset of its own reserves on all CPUs.
        left = supply.read(tree, found.partition).left
        cpus = tree.cpus_in(found.partition)
        return all(left.get(each, 0) >= wish.cost_ppm for each in cpus)
    inside = tree.held_inside(found.partition).values()
    used = sum(held.cost_on(cpu) for held in inside)
    return used + wish.cost_ppm <= found.ceiling.cpus[cpu]


def _partition(tree: cgroup.Tree, name: str) -> pathlib.Path:
    parts = name.strip('/').split('/')
    if any(part in ('', '.', '..') for part in parts):
        raise exception.HostNotPrepared(
            f'[nova_rt] partition = {name!r} is not a group below {tree.root}'
        )
    return tree.root.joinpath(*parts)


def _make(tree: cgroup.Tree, partition: pathlib.Path) -> None:
    """Make the partition's group, if need be.

    :raises OSError: with the kernel's errno
    """
    if not partition.is_dir():
        tree.files.make_group(partition)
    if tree.interface.version == 1:
        return
    # On cgroup v2 a group has the files of those controllers only that the
    # group above enables.
    for control in _controls(partition):
        if 'cpu' not in tree.files.read(control).split():
            tree.files.write(control, '+cpu')


def _controls(partition: pathlib.Path) -> list[pathlib.Path]:
    """Where cgroup v2 enables controllers for containers."""
    return [
        group / 'cgroup.subtree_control'
        for group in (partition.parent, partition)
    ]


def _as_held(found: Capability, held: interfaces.Held) -> Capability:
    """The capability once the partition holds its share."""
    free = {cpu: held.on(cpu) for cpu in found.ceiling.cpus}
    ceiling = _ceiling(found.interface, free)
    return dataclasses.replace(found, ceiling=ceiling, prepared=True)


def _ceiling(interface: Interface, free: Mapping[int, int]) -> Capacity:
    if interface.scope is Scope.CPU:
        return Capacity({cpu: max(0, ppm) for cpu, ppm in free.items()})
    least = max(0, min(free.values()))
    return Capacity(dict.fromkeys(free, least), least)


def _share(found: Capability, held: interfaces.Held) -> interfaces.Held:
    """The ceiling as a share, in the period that the partition has.

    The period of a group in use cannot be changed alone without a moment in
    which its bandwidth is too small or too large.
    """
    shares = list(held.cpus.values())
    if held.every is not None:
        shares = [held.every]
    period = _PERIOD_US
    if shares and shares[0].runtime_us and shares[0].period_us:
        period = shares[0].period_us
    cpus = {
        cpu: interfaces.Share(ppm * period // PPM, period)
        for cpu, ppm in found.ceiling.cpus.items()
        if ppm
    }
    if found.interface.per_cpu:
        return interfaces.Held(cpus=cpus)
    return interfaces.Held(next(iter(cpus.values())))


def _limit(files: Files, interface: Interface, cpu: int) -> int:
    """What the kernel lets real-time tasks have of a CPU, in ppm.

    Source: kernel/sched/rt.c, sched_rt_global_validate(), and for HCBS
    kernel/sched/deadline.c, init_dl_rq_bw_ratio().

    :raises OSError: with the kernel's errno
    :raises HostNotPrepared: if nothing is enforced
    """
    sysctl = files.proc / 'sys' / 'kernel'
    runtime = int(files.read(sysctl / 'sched_rt_runtime_us'))
    period = int(files.read(sysctl / 'sched_rt_period_us'))
    if runtime < 0 and interface is interfaces.V1_THROTTLE:
        raise exception.HostNotPrepared(
            'kernel.sched_rt_runtime_us is -1: this kernel enforces no '
            'reservation; set it to 950000'
        )
    limit = PPM if runtime < 0 else runtime * PPM // period
    if interface.version == 1:
        return limit
    return limit - _fair_server(files, cpu)


def _fair_server(files: Files, cpu: int) -> int:
    """What ordinary tasks are guaranteed of a CPU, in ppm."""
    server = files.sys.joinpath(
        'kernel', 'debug', 'sched', 'fair_server', f'cpu{cpu}'
    )
    try:
        runtime = int(files.read(server / 'runtime'))
        period = int(files.read(server / 'period'))
    except (FileNotFoundError, PermissionError):
        return _FAIR_SERVER_PPM
    return -(-runtime * PPM // max(1, period))


def _may_have_servers(found: Capability) -> bool:
    """Whether there may be servers behind the files of the mainline kernel.

    With kernel/patches of this repository there are, on cgroup v1 as well, and
    nothing says so: the kernel only takes the fair server into account. What
    is there is then taken for a limit, which is less than it is.
    """
    return found.interface is interfaces.V1_THROTTLE


def _without_fair_servers(files: Files, found: Capability) -> Capability:
    """The capability less what ordinary tasks are guaranteed."""
    free = {
        cpu: ppm - _fair_server(files, cpu)
        for cpu, ppm in found.ceiling.cpus.items()
    }
    return dataclasses.replace(found, ceiling=_ceiling(found.interface, free))


def _listed(taken: Mapping[str, int]) -> str:
    return (
        ', '.join(f'{name} {ppm} ppm' for name, ppm in taken.items())
        or 'nothing'
    )


def _source(interface: Interface, group: pathlib.Path) -> str:
    """Where the bandwidth of a group is set."""
    return ' and '.join(str(group / name) for name in interface.files)


def _not_prepared(
    err: OSError, found: Capability | None = None
) -> exception.HostError:
    """The error of a host whose kernel answered with this one."""
    text = f'{err.strerror} ({errno.errorcode.get(err.errno or 0, "?")})'
    if err.errno in cgroup.ADVICE:
        text += f': {cgroup.ADVICE[err.errno]}'
    if found is not None:
        text += (
            f'. Wanted for {found.partition}: '
            f'{max(found.ceiling.cpus.values())} ppm of a CPU; other groups '
            f'hold {_listed(found.others)}'
        )
    if err.errno == errno.ENOENT:
        return exception.NoRTInterface(text)
    return exception.HostNotPrepared(text)
