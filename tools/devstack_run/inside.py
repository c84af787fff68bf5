# SPDX-License-Identifier: Apache-2.0
"""Runs in DevStack's container: a server as the kernel there has it, as JSON.

It reads the kernel's own files and not through nova_rt, which it checks.
"""

import json
import os
import pathlib
import subprocess
import sys

CGROUPS = pathlib.Path('/sys/fs/cgroup')
PROC = pathlib.Path('/proc')


def groups(text: str) -> dict[str, str]:
    """Return the group in each hierarchy of v1, from a process's list."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(':', 2)
        for name in controllers.split(','):
            if name and not name.startswith('name='):
                found[name] = str(CGROUPS / name) + path
    return found


def process(pid: int) -> dict[str, object]:
    """Return the policy of a process, and the user of its root."""
    name = (PROC / str(pid) / 'comm').read_text().strip()
    first = (PROC / str(pid) / 'uid_map').read_text().split()
    policy = os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK
    return {
        'name': name,
        'policy': 'SCHED_RR' if policy == os.SCHED_RR else policy,
        'priority': os.sched_getparam(pid).sched_priority,
        'root is': int(first[1]),
    }


def look(domain: str) -> dict[str, object]:
    """Return the kernel's reservation of a domain of libvirt-LXC."""
    said = subprocess.run(
        ['virsh', '-c', 'lxc:///', 'domid', domain],
        capture_output=True,
        text=True,
        check=True,
    )
    # libvirt's controller: the parent of the container's first process.
    controller = int(said.stdout)
    found = groups((PROC / str(controller) / 'cgroup').read_text())
    cpu = pathlib.Path(found['cpu'])
    pids = map(int, (cpu / 'cgroup.procs').read_text().split())
    return {
        'group': found['cpu'],
        'runtime_us': int((cpu / 'cpu.rt_runtime_us').read_text()),
        'period_us': int((cpu / 'cpu.rt_period_us').read_text()),
        'cpus': pathlib.Path(found['cpuset'], 'cpuset.cpus')
        .read_text()
        .strip(),
        'processes': [process(pid) for pid in pids if pid != controller],
        # In other hierarchies it may be in the group of libvirt's daemon.
        'groups': sorted(path for path in found.values() if domain in path),
    }


if __name__ == '__main__':
    print(json.dumps(look(sys.argv[1])))
