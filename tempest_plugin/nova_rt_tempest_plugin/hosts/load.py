# SPDX-License-Identifier: Apache-2.0
"""Endless loops in a container, started from its host.

The image needs a shell, and nothing of ours.
"""

import shlex
import time

from nova_rt_tempest_plugin.hosts import container

# Longer than any measurement; a loop ends with its server at the latest.
SPARE_S = 20
_START_S = 10


def hog(
    found: container.Container,
    seconds: float,
    policy: str = 'rr',
    cpu: int | None = None,
    count: int = 1,
    spare_s: int = SPARE_S,
) -> None:
    """Start endless loops in a container, which end by themselves.

    :param seconds: for which they run at least
    :param policy: rr, fifo or other
    :param cpu: where they run; default: where the container may
    :param count: how many of them
    :param spare_s: how much longer they run, since starting takes time
    """
    groups = sorted(set(found.groups.values()))
    # In the container's group first: the policy needs the runtime of it.
    joined = [f'echo $$ >{shlex.quote(each)}/cgroup.procs' for each in groups]
    words = ['chrt', f'--{policy}', '0' if policy == 'other' else '1']
    if cpu is not None:
        words += ['taskset', '--cpu-list', str(cpu)]
    words += [
        'nsenter', '--target', str(found.first_process()), '--all', '--root',
        '--wd=/', '/bin/sh', '-c', 'while :; do :; done',
    ]  # fmt: skip
    line = ' && '.join([*joined, f'exec {shlex.join(words)}'])
    # The one that ends it stays outside: the loop leaves it no time inside.
    start = shlex.join(
        ['setsid', 'timeout', str(int(seconds + spare_s)), 'sh', '-c', line]
    )
    before = len(found.processes())
    found.host.shell(f'{start} </dev/null >/dev/null 2>&1 &\n' * count)
    deadline = time.monotonic() + _START_S
    while len(found.processes()) < before + count:
        if time.monotonic() > deadline:
            # What is in the background tells nobody what is wrong: once more.
            found.host.run('timeout', '1', 'sh', '-c', line)
        time.sleep(0.2)
