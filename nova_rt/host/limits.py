# SPDX-License-Identifier: Apache-2.0
"""Limits of a container's use of host resources other than CPU time."""

from nova_rt import exception
from nova_rt.host.files import Files


def check_task_limits(files: Files | None = None) -> None:
    """Require that the kernel can limit the tasks of a container.

    :raises HostNotPrepared: if it cannot
    """
    files = files or Files()
    try:
        controllers = files.read(files.cgroup / 'cgroup.controllers').split()
    except FileNotFoundError:
        path = files.cgroup / 'pids'
        there = (path / 'tasks').exists()
        remedy = f'mount -t cgroup -o pids pids {path}'
    else:
        there = 'pids' in controllers
        remedy = 'boot the kernel without cgroup_disable=pids'
    if not there:
        raise exception.HostNotPrepared(
            'the kernel has no pids controller to limit the tasks of a '
            f'container with: {remedy}, or set [nova_rt] max_tasks = 0 if '
            'one container may use up the process IDs of this host'
        )
