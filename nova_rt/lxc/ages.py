# SPDX-License-Identifier: Apache-2.0
"""The age of a container: that of its libvirt_lxc process."""

import os
import pathlib
import time

#: Field ``starttime`` of /proc/<pid>/stat, counted from the first one after
#: the command's name: see proc_pid_stat(5), (22).
_START_FIELD = 22 - 3


def read_age_s(pid: int) -> float:
    """Read the age of a process.

    Both times count from the boot of the host: no clock that is set matters.

    :returns: seconds since its start
    :raises OSError: ENOENT or ESRCH if it has ended
    """
    text = pathlib.Path(f'/proc/{pid}/stat').read_text(errors='replace')
    # The name may hold anything, parentheses included.
    ticks = int(text.rpartition(')')[2].split()[_START_FIELD])
    started_s = ticks / os.sysconf('SC_CLK_TCK')
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
