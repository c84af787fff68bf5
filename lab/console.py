# SPDX-License-Identifier: Apache-2.0
"""Output of the lab for its user: progress with elapsed time, and failures."""

import os
import pathlib
import select
import sys
import threading
import time

# The part of a command that runs in the namespaces goes on counting.
_STARTED = 'NOVA_RT_LAB_STARTED'
_START = float(os.environ.setdefault(_STARTED, str(time.monotonic())))
_LOCK = threading.Lock()
TAIL_LINES = 25
#: Prefix that the user types before a command for root: a machine may have no
#: sudo.
SUDO = 'sudo ' if 'SUDO_USER' in os.environ else ''


class LabError(Exception):
    """The lab cannot go on; the message has the reason and the remedy.

    :param log: the log file that knows more; its last lines are shown.
    """

    def __init__(self, message: str, log: pathlib.Path | None = None) -> None:
        super().__init__(message)
        self.log = log


def say(message: str) -> None:
    """Print one progress line with the seconds since the command began."""
    elapsed = time.monotonic() - _START
    with _LOCK:
        print(f'[{elapsed:6.1f}s] {message}', flush=True)


def warn(message: str) -> None:
    """Print a progress line that the user should not overlook."""
    say(f'WARNING: {message}')


def tail(log: pathlib.Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, or an empty string without one."""
    try:
        text = log.read_text(errors='replace')
    except FileNotFoundError:
        return ''
    return '\n'.join(text.splitlines()[-lines:])


def fail(error: LabError) -> None:
    """Print why the command ends, with the end of the log that explains it."""
    with _LOCK:
        if error.log:
            print(f'--- the last lines of {error.log} ---', file=sys.stderr)
            print(tail(error.log), file=sys.stderr)
            print('---', file=sys.stderr)
        print(f'lab: {error}', file=sys.stderr, flush=True)


def let_go_of_output() -> bool:
    """See whether nobody reads the output any more, as after ``| head``.

    If so, later output goes nowhere, without an error when the program ends.

    :return: whether it is so.
    """
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
    return True
