# SPDX-License-Identifier: Apache-2.0
"""The lab's virtual switch, kept from shaping measurements."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import sys

from lab import services
from lab.console import LabError

# Before the client, which must not keep its own answers from coming.
_FIRST = os.sched_param(2)
_ORDINARY = os.sched_param(0)


@contextlib.contextmanager
def ahead(cpu: int | None) -> Iterator[None]:
    """Run the virtual switch ahead of ordinary programs for a while.

    A switch in the kernel forwards packets before any process runs. The lab's
    is an ordinary process: where noise holds it up, it hands out in one burst
    what the client has sent one by one, and the service has a queue that no
    user has made.

    :param cpu: where it runs meanwhile; None: anywhere.
    :raises LabError: when there is no switch.
    """
    switch = services.table()['ovs-vswitchd'].running()
    if not switch:
        raise LabError('ovs-vswitchd does not run; "lab up" starts it')
    everywhere = os.sched_getaffinity(switch.pid)
    first = everywhere if cpu is None else {cpu}
    try:
        try:
            _set(switch.pid, os.SCHED_FIFO, _FIRST, first)
        except PermissionError as error:
            print(f'the switch is not real-time: {error}', file=sys.stderr)
        yield
    finally:
        _set(switch.pid, os.SCHED_OTHER, _ORDINARY, everywhere)


def _set(
    pid: int, policy: int, priority: os.sched_param, cpus: set[int]
) -> None:
    # New threads inherit both from the one that makes them.
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(int(task.name), policy, priority)
            os.sched_setaffinity(int(task.name), cpus)
