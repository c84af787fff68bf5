# SPDX-License-Identifier: Apache-2.0
"""A container as the kernel has it: control groups, CPU time, namespaces.

Read from the kernel's own files and not through nova_rt, which is checked
here.
"""

import dataclasses
import pathlib
import time

import libvirt

from lab import second

PROC = pathlib.Path('/proc')


@dataclasses.dataclass(frozen=True)
class Held:
    """Reservation of a control group in the kernel, in microseconds."""

    runtime_us: int
    period_us: int

    def __str__(self) -> str:
        return f'{self.runtime_us}/{self.period_us}'


def domains() -> list[str]:
    """Return the ids of all servers that libvirt knows, running or not."""
    return sorted(
        found for host in second.alive() for found in domains_on(host)
    )


def domains_on(host: str) -> list[str]:
    """Return the ids of those that the libvirt of one compute knows."""
    with _Libvirt(host) as connection:
        return sorted(
            domain.UUIDString() for domain in connection.listAllDomains()
        )


class Container:
    """A running container of a server.

    :ivar pid: libvirt's controller of it, the parent of its first process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._paths = _cgroups_of(pid)

    @classmethod
    def of(cls, server_id: str) -> 'Container | None':
        """Return the container of a server, None when none runs.

        On whichever compute it runs; a moved server may be defined on two.
        """
        for host in second.alive():
            found = cls.on(host, server_id)
            if found:
                return found
        return None

    @classmethod
    def on(cls, host: str, server_id: str) -> 'Container | None':
        """Return the container of a server on one compute, if one runs."""
        with _Libvirt(host) as connection:
            try:
                domain = connection.lookupByUUIDString(server_id)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise
            return cls(domain.ID()) if domain.isActive() else None

    @property
    def cgroup(self) -> pathlib.Path:
        """The control group that holds the reservation."""
        return self._paths['cpu']

    def rt_files(self) -> dict[pathlib.Path, str]:
        """Return the files of the reservation with their content."""
        return {
            path: path.read_text().strip()
            for path in sorted(self.cgroup.glob('cpu.rt*'))
        }

    def held(self) -> Held:
        """Return the reservation that the kernel holds; 0 when none."""
        return held(self.cgroup)

    def cpus(self) -> list[int]:
        """Return the CPUs that the container may use."""
        cpuset = self._paths['cpuset']
        effective = cpuset / 'cpuset.cpus.effective'
        name = effective if effective.exists() else cpuset / 'cpuset.cpus'
        return cpu_list(name.read_text())

    def used_ns(self) -> int:
        """Return the CPU time that the container has used, in ns."""
        usage = self._paths.get('cpuacct', self.cgroup) / 'cpuacct.usage'
        if usage.exists():
            return int(usage.read_text())
        stat = (self.cgroup / 'cpu.stat').read_text().split()
        return int(stat[stat.index('usage_usec') + 1]) * 1000

    def first_process(self) -> int:
        """Return the process that is number 1 in the container."""
        children = PROC / str(self.pid) / 'task' / str(self.pid) / 'children'
        return int(children.read_text().split()[0])

    def processes(self) -> list[int]:
        """Return all processes of the container, without its controller."""
        pids = map(int, (self.cgroup / 'cgroup.procs').read_text().split())
        return [pid for pid in pids if pid != self.pid]

    def network(self) -> str:
        """Return the identity of its network namespace."""
        namespace = PROC / str(self.first_process()) / 'ns' / 'net'
        return str(namespace.readlink())

    def network_devices(self) -> list[str]:
        """Return the names of the network devices in it."""
        table = (PROC / str(self.first_process()) / 'net' / 'dev').read_text()
        return sorted(
            line.partition(':')[0].strip()
            for line in table.splitlines()
            if ':' in line
        )

    def groups(self) -> list[pathlib.Path]:
        """Return its control groups, the one of the reservation first."""
        return list(dict.fromkeys([self.cgroup, *self._paths.values()]))

    def gone(self) -> bool:
        """Return whether its control groups are gone."""
        return not any(path.exists() for path in self._paths.values())


def shares(containers: list[Container], seconds: float) -> list[float]:
    """Watch containers at the same time; return the share of a CPU of each."""
    before = [container.used_ns() for container in containers]
    began = time.monotonic_ns()
    time.sleep(seconds)
    after = [container.used_ns() for container in containers]
    elapsed = time.monotonic_ns() - began
    return [
        (end - start) / elapsed
        for start, end in zip(before, after, strict=True)
    ]


def held(cgroup: pathlib.Path) -> Held:
    """Return the reservation of a control group, by any interface."""
    maximum = cgroup / 'cpu.rt.max'
    if maximum.exists():
        runtime, period = maximum.read_text().split()
        return Held(int(runtime), int(period))
    return Held(
        int((cgroup / 'cpu.rt_runtime_us').read_text()),
        int((cgroup / 'cpu.rt_period_us').read_text()),
    )


def cpu_list(text: str) -> list[int]:
    """Read the kernel's list format, for example ``0-3,7``."""
    cpus: list[int] = []
    for part in text.strip().split(','):
        first, _, last = part.partition('-')
        if first:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def hierarchies() -> dict[str, pathlib.Path]:
    """Return where each controller's control groups are mounted."""
    found = {}
    for line in (PROC / 'self' / 'mountinfo').read_text().splitlines():
        mounted, _, kind = line.partition(' - ')
        where = pathlib.Path(mounted.split()[4])
        fields = kind.split()
        if fields[0] == 'cgroup':
            for name in fields[2].split(','):
                found[name] = where
        elif fields[0] == 'cgroup2':
            found[''] = where
    return found


def _cgroups_of(pid: int) -> dict[str, pathlib.Path]:
    mounted = hierarchies()
    found = {}
    unified = None
    for line in (PROC / str(pid) / 'cgroup').read_text().splitlines():
        _, names, path = line.split(':', 2)
        for name in names.split(','):
            if name in mounted:
                found[name] = mounted[name] / path.lstrip('/')
        if not names and '' in mounted:
            unified = mounted[''] / path.lstrip('/')
    if 'cpu' not in found and unified:
        found = dict.fromkeys(('cpu', 'cpuset', 'cpuacct'), unified)
    # Only those with a group of their own; the rest share the root.
    return {
        name: path
        for name, path in found.items()
        if path != mounted.get(name, mounted.get(''))
    }


class _Libvirt:
    def __init__(self, host: str) -> None:
        self._uri = 'lxc:///'
        if host == second.HOST:
            socket = second.path('/run/libvirt/libvirt-sock')
            self._uri = f'lxc+unix:///?socket={socket}'

    def __enter__(self) -> libvirt.virConnect:
        # Errors are raised; they need not be printed as well.
        libvirt.registerErrorHandler(lambda context, error: None, None)
        self._connection = libvirt.open(self._uri)
        return self._connection

    def __exit__(self, *args: object) -> None:
        self._connection.close()
