# SPDX-License-Identifier: Apache-2.0
"""A server's container as the kernel of its host has it.

Read from the kernel's own files, cgroup v1 and v2 alike, and not through
nova_rt, which is checked.
"""

import dataclasses
import posixpath
import shlex
import time

from tempest import config

from nova_rt_tempest_plugin.hosts import transport

CONF = config.CONF

#: Policies of sched(7) by their numbers in the kernel.
POLICIES = {0: 'other', 1: 'fifo', 2: 'rr', 3: 'batch', 5: 'idle'}

# libvirt's daemons are in groups of other controllers by themselves: only
# these say where a container is.
_CONTROLLERS = ('cpu', 'cpuset', 'cpuacct')
#: In place of the runtime of a group without a reservation, on cgroup v2.
_NONE = 'max'


@dataclasses.dataclass(frozen=True)
class Held:
    """Reservation of a control group in the kernel, in microseconds."""

    runtime_us: int
    period_us: int

    def __str__(self) -> str:
        return f'{self.runtime_us}/{self.period_us}'


class Container:
    """A running container of a server.

    :ivar host: where it runs
    :ivar server: UUID of the server
    :ivar pid: libvirt's controller of it, the parent of its first process
    :ivar groups: controller -> directory of its control group
    """

    def __init__(self, host: transport.Host, server: str, pid: int) -> None:
        self.host = host
        self.server = server
        self.pid = pid
        mounted = hierarchies(host)
        self.groups = _groups(host, pid, mounted)
        self._top = mounted.get('')

    @property
    def group(self) -> str:
        """The control group of its tasks."""
        return self.groups['cpu']

    def held(self) -> Held:
        """Return the reservation that the kernel holds; 0/P when none."""
        return held(self.host, self._reserving())

    def _reserving(self) -> str:
        """Return the control group that holds the reservation.

        On cgroup v2, a group without one uses that of the group above. A
        container that may use all CPUs of its host has it in the outer one of
        its groups.
        """
        group = self.group
        while group not in (self._top, '/'):
            found = self.host.read_some([f'{group}/cpu.rt.max'])
            if not found.startswith(_NONE):
                return group
            group = posixpath.dirname(group)
        return self.group

    def set_held(self, reservation: str) -> None:
        """Change the reservation behind the back of nova_rt.

        :param reservation: of the same period
        """
        runtime, period = reservation.split('/')
        maximum = f'{self._reserving()}/cpu.rt.max'
        if self.host.exists(maximum):
            self.host.write(maximum, f'{runtime} {period}')
        else:
            self.host.write(f'{self.group}/cpu.rt_runtime_us', runtime)

    def cpus(self) -> list[int]:
        """Return the CPUs that the container may use."""
        cpuset = self.groups['cpuset']
        found = self.host.read_some(
            [f'{cpuset}/cpuset.cpus.effective', f'{cpuset}/cpuset.cpus']
        )
        return cpu_list(found.split()[0])

    def first_process(self) -> int:
        """Return the process that is number 1 in the container."""
        path = f'/proc/{self.pid}/task/{self.pid}/children'
        return int(self.host.read(path).split()[0])

    def processes(self) -> list[int]:
        """Return all processes of the container, without its controller."""
        pids = self.host.read(f'{self.group}/cgroup.procs').split()
        return [int(pid) for pid in pids if int(pid) != self.pid]

    def policies(self) -> set[tuple[str, int]]:
        """Return policy and real-time priority of each of its processes."""
        files = [f'/proc/{pid}/stat' for pid in self.processes()]
        found = set()
        for line in self.host.read_some(files).splitlines():
            # Fields 40 and 41 of proc(5); the name before them may hold
            # blanks, and ends at the last parenthesis.
            fields = line.rpartition(')')[2].split()
            number = int(fields[38])
            policy = POLICIES.get(number, str(number))
            found.add((policy, int(fields[37])))
        return found

    def used_ns(self) -> int:
        """Return the CPU time that the container has used, in ns."""
        usage = f'{self.groups.get("cpuacct", self.group)}/cpuacct.usage'
        if self.host.exists(usage):
            return int(self.host.read(usage))
        words = self.host.read(f'{self.group}/cpu.stat').split()
        return int(words[words.index('usage_usec') + 1]) * 1000

    def network_devices(self) -> list[str]:
        """Return the names of the network devices in it."""
        table = self.host.read(f'/proc/{self.first_process()}/net/dev')
        return sorted(
            line.partition(':')[0].strip()
            for line in table.splitlines()
            if ':' in line
        )

    def namespace(self, kind: str) -> str:
        """Return the identity of one of its namespaces, ``net`` say."""
        return self.host.run(
            'readlink', f'/proc/{self.first_process()}/ns/{kind}'
        ).strip()

    def enter_line(self, line: str) -> str:
        """Return a line for a shell of the host that runs one inside.

        It joins the container's control groups and all its namespaces, and
        runs as the container's root, under the policy of its caller.
        """
        groups = sorted(set(self.groups.values()))
        joined = ' && '.join(
            f'echo $$ > {shlex.quote(group)}/cgroup.procs' for group in groups
        )
        enter = shlex.join([
            'nsenter', '--target', str(self.first_process()), '--all',
            '--root', '--wd=/', '/bin/sh', '-c', line,
        ])  # fmt: skip
        return f'{joined} && exec {enter}'

    def run(self, line: str) -> str:
        """Run a line of a shell inside, as the container's root.

        :returns: its standard output
        :raises HostError: if it fails or takes too long
        """
        return self.host.shell(self.enter_line(line))

    def gone(self) -> bool:
        """Return whether its control groups are gone."""
        return not any(map(self.host.exists, sorted(self.groups.values())))


def find(host: transport.Host, server: str) -> Container | None:
    """Return the container of a server on a host, None when none runs."""
    # Without a word on states it lists those that run, or are paused.
    if server not in _domains(host):
        return None
    # libvirt's ID of a container is the process of its controller.
    number = _virsh(host, 'domid', server).strip()
    return Container(host, server, int(number)) if number.isdigit() else None


def defined(host: transport.Host, server: str) -> bool:
    """Return whether libvirt knows the server, running or not."""
    return server in _domains(host, '--all')


def shares(containers: list[Container], seconds: float) -> list[float]:
    """Watch containers at the same time; return the share of a CPU of each.

    Reading takes a while, over SSH above all: each container has its own
    clock, read on both sides at the same distance.
    """
    before = [(each.used_ns(), time.monotonic_ns()) for each in containers]
    time.sleep(seconds)
    after = [(each.used_ns(), time.monotonic_ns()) for each in containers]
    return [
        (end - start) / (later - sooner)
        for (start, sooner), (end, later) in zip(before, after, strict=True)
    ]


def held(host: transport.Host, group: str) -> Held:
    """Return the reservation of a control group, by any interface."""
    maximum = f'{group}/cpu.rt.max'
    if host.exists(maximum):
        runtime, period = host.read(maximum).split()
        runtime = '0' if runtime == _NONE else runtime
    else:
        runtime = host.read(f'{group}/cpu.rt_runtime_us')
        period = host.read(f'{group}/cpu.rt_period_us')
    return Held(int(runtime), int(period))


def cpu_list(text: str) -> list[int]:
    """Read the kernel's list format, for example ``0-3,7``."""
    cpus: list[int] = []
    for part in text.strip().split(','):
        first, _, last = part.partition('-')
        if first:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def hierarchies(host: transport.Host) -> dict[str, str]:
    """Return where each controller is mounted; the unified one as ''."""
    found = {}
    for line in host.read('/proc/self/mountinfo').splitlines():
        mounted, _, kind = line.partition(' - ')
        where = mounted.split()[4]
        fields = kind.split()
        if fields[0] == 'cgroup':
            for name in fields[2].split(','):
                found[name] = where
        elif fields[0] == 'cgroup2':
            found[''] = where
    return found


def _groups(
    host: transport.Host, pid: int, mounted: dict[str, str]
) -> dict[str, str]:
    found = {}
    unified = None
    for line in host.read(f'/proc/{pid}/cgroup').splitlines():
        _, names, path = line.split(':', 2)
        for name in names.split(','):
            if name in _CONTROLLERS and name in mounted:
                found[name] = mounted[name] + path
        if not names and '' in mounted:
            unified = mounted[''] + path
    if 'cpu' not in found and unified:
        found = dict.fromkeys(_CONTROLLERS, unified)
    return found


def _domains(host: transport.Host, *which: str) -> list[str]:
    return _virsh(host, 'list', '--uuid', *which).split()


def _virsh(host: transport.Host, *words: str) -> str:
    return host.run('virsh', '--connect', CONF.nova_rt.libvirt_uri, *words)
