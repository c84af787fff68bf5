# SPDX-License-Identifier: Apache-2.0
"""Privileged: keep a container's controller from the out-of-memory killer.

libvirt_lxc is in the memory control group of its container. When the container
has used up its memory, the kernel ends the largest process in there (Linux
mm/oom_kill.c, oom_badness()): beside many small ones that is libvirt_lxc, and
the whole server ends with it. libvirt can put it nowhere else.

Nothing here trusts its caller: a process of the container is in a PID
namespace of its own, and is refused.
"""

import errno
import os

import nova_rt.privsep
from nova_rt.privsep import limits
from nova_rt.privsep.kernel import SystemCalls

_FILE = 'oom_score_adj'

#: OOM_SCORE_ADJ_MIN (include/uapi/linux/oom.h): it is never chosen.
_NEVER = -1000


@nova_rt.privsep.mount_pctxt.entrypoint
def keep(controller: int) -> None:
    """Keep a process from the out-of-memory killer.

    :param controller: a container's libvirt_lxc. The container's first
        process was made before, and inherits nothing.
    :raises OSError: EACCES if it is not in the partition, if it is in a PID
        namespace of its own, or if this helper has no CAP_SYS_RESOURCE;
        ENOENT or ESRCH if it has ended
    """
    _keep(SystemCalls(), controller)


def _keep(kernel: SystemCalls, controller: int) -> None:
    process = limits.open_process(kernel, int(controller))
    with limits.opened(kernel, process):
        if not os.path.samestat(
            os.stat('ns/pid', dir_fd=process),
            os.stat(f'{kernel.proc}/self/ns/pid'),
        ):
            raise PermissionError(
                errno.EACCES, f'process {controller} is inside a container'
            )
        kernel.write(process, _FILE, str(_NEVER))
