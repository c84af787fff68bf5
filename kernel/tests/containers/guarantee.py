#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nova_rt's host layer on the kernel with the series, with real containers.

Runs inside the Debian guest, as root. Every number is read from the kernel
beside nova_rt as well, by code of its own, and compared.
"""

import collections
import errno
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import lxc

from nova_rt import exception
from nova_rt.host import host
import nova_rt.privsep
import nova_rt.privsep.oom
from nova_rt.reservation.admission import Scope
from nova_rt.reservation.extra_specs import Enforcement, TaskPolicy
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

ROOT = pathlib.Path('/sys/fs/cgroup')
SLICE = ROOT / 'machine.slice'
#: Time for which a container's CPU time is measured.
WINDOW_S = 5.0
#: Largest difference of it from the reservation, in CPUs.
TOLERANCE = 0.01
#: The first ID of the first container, and the size of each range.
FIRST = 2_000_224_256
RANGE = 65536
#: Starts of a container that a neighbor watches.
RESTARTS = 100
#: Tasks of a container that forks.
TASKS = 30
#: Keeps some MiB in the memory of a shell: more than a container's first
#: process has, less than libvirt_lxc.
EATER = r"x=\$(head -c 1000000 /dev/zero | tr '\\0' x); sleep 600"
#: Number of these; more than a container has memory for.
EATERS = 60
#: Files with which a container is frozen, ended, moved or slowed down.
FILES = ('cgroup.freeze', 'cgroup.kill', 'cgroup.procs', 'cpu.max',
         'cpuset.cpus', 'cpu.rt.max')  # fmt: skip


def record(text: str, cpus: tuple[int, ...], policy: TaskPolicy) -> Record:
    """A server's reservation, as nova-compute has it."""
    request = Request(
        Reservation.parse(text), len(cpus), policy=policy, priority=5
    )
    return Record(request, cpus)


def supply() -> dict[int, tuple[int, int]]:
    """CPU -> ceiling and reserved, from the kernel's file."""
    text = (ROOT / 'cpu.rt.effective').read_text()
    found = re.findall(
        r'^(\d+) ceiling_ppm=(\d+) reserved_ppm=(\d+)$', text, re.M
    )
    return {int(cpu): (int(top), int(held)) for cpu, top, held in found}


def group_of(pid: int) -> pathlib.Path:
    """The control group of a process."""
    line = pathlib.Path(f'/proc/{pid}/cgroup').read_text().strip()
    return ROOT / line.removeprefix('0::/')


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, by the scheduler's own clock."""
    text = pathlib.Path(f'/proc/{pid}/schedstat').read_text()
    return int(text.split()[0]) / 1e9


def read_settings(group: pathlib.Path) -> dict[str, str]:
    """Settings of a group that a neighbor would change."""
    return {
        name: (group / name).read_text().strip()
        for name in ('cgroup.freeze', 'cpu.max', 'cpuset.cpus')
        if (group / name).exists()
    }


def read_killed() -> list[str]:
    """Programs that the kernel has ended for lack of memory, in order."""
    log = subprocess.run(
        ['dmesg'], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(r'Killed process \d+ \(([^)]*)\)', log)


def try_as_root(lines: list[str]) -> collections.Counter[str]:
    """Try what a container was refused: root of the host is the control.

    Nothing is written: the kernel judges when a file is opened for writing.

    :param lines: output of attack.sh
    :returns: number of those permitted and refused; of a container that has
        been restarted meanwhile, gone; of no file, other
    """
    found: collections.Counter[str] = collections.Counter()
    for line in lines:
        kind, *words = line.split('\t')
        if kind != 'breach' or words[1] != 'refused':
            continue
        name = words[0]
        match = re.search(r': (write|join by|mkdir in) (/\S+)$', name)
        if match is None:
            found['other'] += 1
            continue
        path = pathlib.Path(match[2])
        try:
            if match[1] == 'mkdir in':
                probe = path / f'control-{os.getpid()}'
                probe.mkdir()
                probe.rmdir()
            else:
                os.close(os.open(path, os.O_WRONLY))
            found['permitted'] += 1
        except FileNotFoundError:
            found['gone'] += 1
        except OSError as err:
            found['refused'] += 1
            print(f'     root of the host: {name}: {err}')
    return found


def start_poller(user: int) -> 'subprocess.Popen[str]':
    """Start a user of the host that polls groups of starting containers."""
    script = pathlib.Path(__file__).with_name('poll.py')
    poller = subprocess.Popen(
        ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups',
         sys.executable, str(script), str(SLICE), 'restarting', *FILES],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert poller.stdout is not None
    poller.stdout.readline()
    return poller


class Test:
    """The steps, in order; each prints its findings."""

    def __init__(self) -> None:
        self.failures = 0
        # This is root already.
        for context in nova_rt.privsep.rt_pctxt, nova_rt.privsep.mount_pctxt:
            context.set_client_mode(False)
        self.libvirt = lxc.Libvirt()
        self.containers: list[lxc.Container] = []
        self.host = host.Host(
            cpu_set=None, smt=True, reserved_ppm=0, partition=None
        )

    def check(self, ok: bool, text: str) -> None:
        """Count and print one finding."""
        self.failures += not ok
        print(f'{"ok  " if ok else "FAIL"} {text}', flush=True)

    def command(self, *command: str) -> None:
        """Run a command of nova_rt, and show its output."""
        done = subprocess.run(
            command, check=False, capture_output=True, text=True
        )
        self.check(done.returncode == 0, ' '.join(command))
        for line in (done.stdout + done.stderr).splitlines():
            print(f'     | {line}')

    def start(self, name: str, *cpus: int, first: int = 0) -> lxc.Container:
        """Start a container on these CPUs."""
        listed = ','.join(map(str, cpus))
        container = lxc.Container(
            self.libvirt, name, listed, len(cpus), first=first
        )
        self.containers.append(container)
        return container

    def apply(
        self,
        container: lxc.Container,
        text: str,
        *cpus: int,
        policy: TaskPolicy = TaskPolicy.FIFO,
    ) -> Record:
        """Reserve for a container through nova_rt, and check the kernel."""
        rec = record(text, cpus, policy)
        self.host.apply(container.pid, rec)
        runtime, period = (int(word) * 1000 for word in text.split('/'))
        wanted = [f'{cpu} runtime_ns={runtime} period_ns={period}'
                  for cpu in cpus]  # fmt: skip
        group = group_of(container.init)
        held = (group / 'cpu.rt.effective').read_text().splitlines()
        self.check(
            held == wanted and self.host.check(container.pid, rec) is None,
            f'{container.name}: {text} us on CPUs {cpus} applied, the kernel '
            f'has {held}',
        )
        return rec

    def probe(self) -> None:
        """The kernel's offer, by nova_rt and by reading."""
        found = self.host.start()
        self.check(
            found.name == 'v2-rt-max-cpu'
            and found.enforcement is Enforcement.GUARANTEE
            and found.scope is Scope.CPU,
            f'interface {found.name}, {found.enforcement}, sum per '
            f'{found.scope}',
        )
        kernel = {cpu: top for cpu, (top, _) in supply().items()}
        mine = dict(self.host.capacity().cpus)
        self.check(mine == kernel, f'capacity in ppm: {mine}')
        self.check(self.host.free([]).cpus == kernel, 'all of it is free')
        self.command('nova-rt-status', 'host', 'check', '--prepare')

    def share(self) -> None:
        """A container with a hog gets what was reserved, and no more."""
        container = self.start('share', 1)
        rec = self.apply(container, '40000/100000', 1)
        policy = os.sched_getscheduler(container.init)
        self.check(
            policy == os.SCHED_FIFO
            and os.sched_getaffinity(container.init) == {1},
            f'share: its init has policy {policy} (FIFO is {os.SCHED_FIFO}) '
            f'and CPUs {os.sched_getaffinity(container.init)}',
        )
        free = self.host.free([rec.claim]).cpus[1]
        top, held = supply()[1]
        self.check(
            free in (top - held, top - 400_000) and held in (399_999, 400_000),
            f'share: CPU 1 has {top} ppm, {held} reserved, {free} free',
        )
        # A fair hog on the same CPU, and real-time ones on the host's side.
        for prefix in ([], ['chrt', '-f', '99']):
            with subprocess.Popen(
                [
                    *prefix,
                    'taskset',
                    '-c',
                    '1',
                    'sh',
                    '-c',
                    'while :; do :; done',
                ]
            ) as hog:
                try:
                    self._measure(container, 0.4, prefix)
                finally:
                    hog.kill()

    def _measure(
        self, container: lxc.Container, share: float, beside: list[str]
    ) -> None:
        container.go()
        time.sleep(0.5)
        begin, before = time.monotonic(), cpu_seconds(container.init)
        counted = self.host.read_usage(container.pid)
        time.sleep(WINDOW_S)
        took = time.monotonic() - begin
        used = cpu_seconds(container.init) - before
        after = self.host.read_usage(container.pid)
        assert counted is not None and after is not None
        usage = sum(after[cpu].used_us - counted[cpu].used_us for cpu in after)
        periods = sum(
            after[cpu].periods - counted[cpu].periods for cpu in after
        )
        throttled = sum(
            after[cpu].throttled - counted[cpu].throttled for cpu in after
        )
        what = 'FIFO-99' if beside else 'fair'
        self.check(
            abs(used / took - share) < TOLERANCE,
            f'{container.name}: beside a {what} hog its process had '
            f'{used / took:.4f} of a CPU in {took:.2f} s, reserved is {share}',
        )
        self.check(
            abs(usage / 1e6 - used) < TOLERANCE * took and throttled > 0,
            f'{container.name}: nova_rt reports {usage} us used, {periods} '
            f'periods, {throttled} throttled',
        )

    def full(self) -> None:
        """0.9 on each of two CPUs; a third on one of them is refused."""
        first = self.start('first', 2)
        second = self.start('second', 3)
        one = self.apply(first, '90000/100000', 2)
        two = self.apply(second, '90000/100000', 3, policy=TaskPolicy.RR)
        third = self.start('third', 2)
        try:
            self.host.apply(
                third.pid, record('10000/100000', (2,), TaskPolicy.FIFO)
            )
        except exception.ReservationNotApplied as err:
            self.check(
                err.errno == errno.EBUSY and re.search(r'\d{6}', str(err)),
                f'third: refused: {err}',
            )
        else:
            self.check(False, 'third: 0.1 on a CPU that is full is admitted')
        policy = os.sched_getscheduler(third.init)
        self.check(policy == os.SCHED_OTHER, 'third: its tasks are ordinary')
        self.command('nova-rt-status', 'host', 'usage')
        free = self.host.free([one.claim, two.claim]).cpus
        top = {cpu: ceiling for cpu, (ceiling, _) in supply().items()}
        self.check(
            all(abs(free[cpu] - (top[cpu] - 900_000)) <= 1 for cpu in (2, 3)),
            f'free then, in ppm: {dict(free)}',
        )

    def several(self) -> None:
        """A container with two CPUs has its share on both."""
        for container in self.containers:
            container.destroy()
        self.containers.clear()
        both = self.start('both', 0, 2)
        self.apply(both, '3000/10000', 0, 2)
        # Once more, and another size, while it runs.
        self.apply(both, '3000/10000', 0, 2)
        self.apply(both, '50000/100000', 0, 2)

    def systemd(self) -> None:
        """Work of systemd meanwhile leaves reservations alone."""
        container = self.start('kept', 1)
        rec = self.apply(container, '3000/10000', 1)
        for command in (
            ['systemctl', 'daemon-reload'],
            ['systemctl', 'daemon-reexec'],
            ['systemctl', 'restart', 'systemd-machined'],
            ['systemctl', 'set-property', '--runtime', 'machine.slice',
             'CPUWeight=200'],
            ['systemctl', 'revert', 'machine.slice'],
            ['systemctl', 'restart', 'libvirtd'],
        ):  # fmt: skip
            subprocess.run(command, check=True)
            differs = self.host.check(container.pid, rec)
            self.check(differs is None, f'kept: after {" ".join(command)}: '
                       f'{differs or "as it was"}')  # fmt: skip

    def inside(self) -> None:
        """Writes of a container to reservations are refused or repaired."""
        for name, mapped in (('root', False), ('mapped', True)):
            container = self.start(name, 2, first=FIRST * mapped)
            rec = self.apply(container, '30000/100000', 2)
            group = group_of(container.init)
            for file, text in (
                ('cpu.rt.max', '60000 100000'),
                ('cpu.rt.max', 'max'),
                ('cpuset.cpus', '0-3'),
                ('cpu.max', 'max 100000'),
                ('cgroup.freeze', '0'),
                ('cgroup.subtree_control', '+cpu'),
                ('cpuset.cpus.partition', 'root'),
            ):
                code, said = container.do(f"echo {text} >'{group / file}'")
                differs = self.host.check(container.pid, rec)
                # The host's root may, in whatever name space; a root that is
                # mapped to a user may not.
                self.check(
                    (code != 0 and differs is None)
                    if mapped
                    else code != 0
                    or file.endswith('partition')
                    or (differs is not None)
                    == (file in ('cpu.rt.max', 'cpuset.cpus')),
                    f'{name}: its own {file}: {said or "written"}; nova_rt '
                    f'sees {differs or "no difference"}',
                )
                self.host.apply(container.pid, rec)
            if mapped:
                inside = group / 'part'
                code, said = container.do(f"mkdir '{inside}'")
                self.check(code != 0, f'{name}: mkdir {said or "done"}')
            differs = self.host.check(container.pid, rec)
            self.check(
                differs is None, f'{name}: then {differs or "as it was"}'
            )
            # Root of the host in a name space of its own may write to every
            # group; one that is mapped to a user may not.
            other = SLICE / 'cpu.rt.max'
            before = other.read_text()
            code, said = container.do(f"echo 60000 100000 >'{other}'")
            after = other.read_text()
            self.check(
                (code == 0) == (after != before)
                and not (mapped and code == 0),
                f'{name}: another group: {said or "written"}; '
                f'{before.strip()} is {after.strip()}',
            )
            other.write_text(before)
            container.destroy()

    def attack(self) -> None:
        """A mapped root tries everything that attack.sh knows."""
        victim = self.start('victim', 1, first=FIRST)
        plain = self.start('plain', 1, first=FIRST + RANGE)
        other = self.apply(victim, '30000/100000', 1)
        self.host.take_groups(plain.pid)
        for name in ('real-time', 'ordinary'):
            attacker = self.start(name, 2, first=FIRST + 2 * RANGE)
            if name == 'real-time':
                mine = self.apply(attacker, '30000/100000', 2)
            else:
                self.host.take_groups(attacker.pid)
            groups = [group_of(each.init) for each in (plain, attacker)]
            before = [read_settings(group) for group in groups]
            restarts = self._attack_beside_restarts(attacker, victim)
            self.check(restarts > 0, f'{name}: {restarts} restarts meanwhile')
            after = [read_settings(group) for group in groups]
            self.check(before == after, f'{name}: ordinary groups: {after}')
            kept = [(victim, other)]
            if name == 'real-time':
                kept.append((attacker, mine))
            for container, rec in kept:
                differs = self.host.check(container.pid, rec)
                self.check(
                    differs is None,
                    f'{container.name}: {differs or "as it was"}',
                )
            attacker.destroy()

    def _attack_beside_restarts(
        self, attacker: lxc.Container, victim: lxc.Container
    ) -> int:
        """Restart a third container meanwhile; return how often."""
        group = group_of(victim.init).relative_to(ROOT)
        found: list[tuple[int, str]] = []
        thread = threading.Thread(
            target=lambda: found.append(
                attacker.attack(str(victim.init), f"'{group}'")
            )
        )
        thread.start()
        restarts = 0
        while thread.is_alive():
            restarting = self.start('restarting', 3, first=FIRST + 3 * RANGE)
            self.apply(restarting, '30000/100000', 3)
            restarting.destroy()
            restarts += 1
        thread.join()
        code, said = found[0]
        lines = said.splitlines()
        controls = try_as_root(lines)
        print(f'     {attacker.name}: root of the host: {dict(controls)}')
        results = collections.Counter(
            line.split('\t')[2] for line in lines if line.startswith('breach')
        )
        for line in lines:
            if re.search('\t(SUCCEEDED|UNCLEAR)\t', line):
                print(f'     | {line}')
        self.check(
            code == 0
            and results['refused'] > 30
            and not results['SUCCEEDED'] | results['UNCLEAR']
            and controls['permitted'] > 30
            and not controls['refused'],
            f'{attacker.name}: {dict(results)}; of those refused, '
            f'{dict(controls)} to root of the host',
        )
        return restarts

    def race(self) -> None:
        """A neighbor opens files of groups while a container starts.

        libvirt gives the groups to the container's root before nova_rt takes
        them back: that root is the control, and opens some.
        """
        own, neighbor = FIRST, FIRST + RANGE
        counts: dict[int, dict[str, collections.Counter[str]]] = {
            first: {
                'tried': collections.Counter(),
                'opened': collections.Counter(),
            }
            for first in (own, neighbor)
        }
        for number in range(RESTARTS):
            pollers = {first: start_poller(first) for first in counts}
            container = self.start('restarting', 1, first=own)
            if number % 2:
                self.apply(container, '30000/100000', 1)
            else:
                self.host.take_groups(container.pid)
            for first, poller in pollers.items():
                said, _ = poller.communicate('stop')
                for key, found in json.loads(said).items():
                    counts[first][key].update(found)
            container.destroy()
        for first, found in counts.items():
            opened, tried = found['opened'], found['tried']
            print(f'     user {first}: opened {dict(opened)} of {dict(tried)}')
        self.check(
            not counts[neighbor]['opened']
            and counts[neighbor]['tried'].total() > RESTARTS,
            f'{RESTARTS} starts: a neighbor opened '
            f'{counts[neighbor]["opened"].total()} files in '
            f'{counts[neighbor]["tried"].total()} tries',
        )
        self.check(
            counts[own]['opened'].total() > 0,
            'control: the own root opened '
            f'{counts[own]["opened"].total()} in '
            f'{counts[own]["tried"].total()}',
        )

    def tasks(self) -> None:
        """A container has no more tasks than it may."""
        container = self.start('tasks', 1, first=FIRST)
        scope = group_of(container.init)
        while scope.parent != SLICE:
            scope = scope.parent
        before = (scope / 'pids.max').read_text().strip()
        self.host.limit_tasks(container.pid, TASKS)
        # The loop ends where it cannot fork; init itself has to fork again.
        container.do(
            "sh -c 'for n in $(seq 100); do sleep 60 & done'; kill -9 0"
        )
        most, current, events = (
            (scope / f'pids.{name}').read_text().strip()
            for name in ('max', 'current', 'events')
        )
        self.check(
            most == str(TASKS)
            and int(current) <= TASKS
            and not events.endswith(' 0'),
            f'{scope.name}: pids.max was {before} and is {most}; '
            f'{current} tasks, refused: {events}',
        )
        container.destroy()

    def memory(self) -> None:
        """A container out of memory does not lose its libvirt_lxc."""
        for kept in (False, True):
            container = self.start('memory', 1, first=FIRST)
            if kept:
                nova_rt.privsep.oom.keep(container.pid)
            scores = [
                pathlib.Path(f'/proc/{pid}/oom_score_adj').read_text().strip()
                for pid in (container.pid, container.init)
            ]
            killed = self._use_up_memory(container)
            runs = pathlib.Path(f'/proc/{container.pid}').exists()
            self.check(
                runs == kept
                and ('libvirt_lxc' in killed) != kept
                and killed.total() > 0
                and scores == [('0', '-1000')[kept], '0'],
                f'memory: {"kept" if kept else "control"}: oom_score_adj of '
                f'libvirt_lxc and init {scores}, killed {dict(killed)}, '
                f'libvirt_lxc {"runs" if runs else "has ended"}',
            )
            container.destroy()

    def _use_up_memory(
        self, container: lxc.Container
    ) -> collections.Counter[str]:
        """Have a container use up its memory.

        :returns: program -> how often the kernel has ended it
        """
        before = len(read_killed())
        container.send(
            f'for n in $(seq {EATERS}); do sh -c "{EATER}" & done; sleep 600'
        )
        deadline = time.monotonic() + 120
        # Three show which programs are ended.
        while len(read_killed()) < before + 3 and time.monotonic() < deadline:
            if not pathlib.Path(f'/proc/{container.pid}').exists():
                break
            time.sleep(0.1)
        return collections.Counter(read_killed()[before:])

    def end(self) -> None:
        """All reserved bandwidth comes back."""
        for domain in self.libvirt.connection.listAllDomains():
            self.libvirt.destroy(domain.name())
        deadline = time.monotonic() + 5
        while any(held for _, held in supply().values()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        now = supply()
        self.check(
            not any(held for _, held in now.values()),
            f'all domains destroyed, the kernel has {now}',
        )
        self.check(
            dict(self.host.free([]).cpus)
            == {cpu: top for cpu, (top, _) in now.items()},
            'all of it is free',
        )

    def idle(self) -> None:
        """With no container left, systemd may drop the controller."""
        time.sleep(2)
        subprocess.run(['systemctl', 'daemon-reload'], check=True)
        print('     root enables', (ROOT / 'cgroup.subtree_control')
              .read_text().strip())  # fmt: skip
        again = self.start('again', 3)
        self.apply(again, '30000/100000', 3)
        again.destroy()

    def run(self) -> int:
        """Run all steps; return the exit code."""
        for step in (
            self.probe, self.share, self.full, self.several, self.systemd,
            self.end, self.inside, self.end, self.attack, self.end,
            self.race, self.end, self.tasks, self.memory, self.idle, self.end,
        ):  # fmt: skip
            print(f'-- {(step.__doc__ or "").splitlines()[0]}', flush=True)
            step()
        print(f'{self.failures} failures')
        return min(1, self.failures)


if __name__ == '__main__':
    logging.basicConfig(level=logging.WARNING)
    sys.exit(Test().run())
