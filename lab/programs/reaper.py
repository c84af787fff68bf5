# SPDX-License-Identifier: Apache-2.0
"""Runs a program and takes leave of every process that it leaves behind.

``reaper.py PROGRAM [ARGUMENT...]``

libvirtd lets go of the processes of its containers, so that they become
children of process 1 when they end. A process 1 that does not look after
them, as in many a machine for tests, leaves them as zombies. A zombie keeps
its control group alive, though nobody sees it any more, and with it the
group's reservation: the kernel then refuses the bandwidth to the next server.
"""

import ctypes
import os
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run the program; return its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')
    program = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda number, _: os.kill(program, number))
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == program:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == '__main__':
    sys.exit(main())
