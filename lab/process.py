# SPDX-License-Identifier: Apache-2.0
"""Processes of the lab: started, identified, measured, stopped.

A process is identified by its id and start time: services rename themselves
and ids are reused.
"""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import time

PROC = pathlib.Path('/proc')
_PAGE_KB = os.sysconf('SC_PAGE_SIZE') // 1024


@dataclasses.dataclass(frozen=True)
class Process:
    """One process, this one and no later one with the same id.

    :param pid: process id.
    :param started: start time in clock ticks since the machine booted.
    """

    pid: int
    started: int

    def alive(self) -> bool:
        """Return whether it still runs; a zombie does not.

        The first thread of a process that was killed may be a zombie while
        others are still in the kernel; until they are gone, its sockets
        accept connections.
        """
        fields = _stat(self.pid)
        return bool(
            fields
            and (fields[0] != 'Z' or int(fields[17]) > 1)
            and int(fields[19]) == self.started
        )

    def since(self) -> float:
        """Return its start in seconds since the epoch."""
        uptime_s = float((PROC / 'uptime').read_text().split()[0])
        age_s = uptime_s - self.started / os.sysconf('SC_CLK_TCK')
        return time.time() - age_s

    def rss_kb(self) -> int:
        """Return the resident memory in KiB of its whole session."""
        return sum(
            int(fields[21]) * _PAGE_KB
            for pid in pids()
            if (fields := _stat(pid)) and int(fields[3]) == self.pid
        )

    def cpu_s(self) -> float:
        """Return the seconds of CPU that its whole session has used."""
        ticks = sum(
            int(fields[11]) + int(fields[12])
            for pid in pids()
            if (fields := _stat(pid)) and int(fields[3]) == self.pid
        )
        return ticks / os.sysconf('SC_CLK_TCK')

    def kill(self, signum: int) -> None:
        """Send a signal if it still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def kill_session(self) -> None:
        """Kill it and the rest of its session."""
        for pid in pids():
            fields = _stat(pid)
            if fields and int(fields[3]) == self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    # The fields of /proc/PID/stat from the state (the third) on; the name
    # before it may hold spaces and brackets.
    try:
        text = (PROC / str(pid) / 'stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(')')[2].split()


def pids() -> list[int]:
    """Return the ids of all processes of the machine."""
    return [int(p.name) for p in PROC.iterdir() if p.name.isdigit()]


def identify(pid: int) -> Process | None:
    """Return the process that has this id now, if any."""
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields else None


def start(
    command: Sequence[str | pathlib.Path],
    log: pathlib.Path,
    environment: Mapping[str, str],
    cwd: pathlib.Path,
) -> Process:
    """Start a program in a session of its own, its output added to a log."""
    with log.open('ab') as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
    process = identify(child.pid)
    assert process is not None  # not reaped before child.poll()
    return process


def wait_gone(processes: Iterable[Process], seconds: float) -> list[Process]:
    """Wait for processes to end; return those that did not."""
    left = [process for process in processes if process.alive()]
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if process.alive()]
    return left


def stop(processes: Iterable[Process], seconds: float) -> None:
    """Ask processes to end, and kill the others after some seconds."""
    processes = list(processes)
    for process in processes:
        process.kill(signal.SIGTERM)
    for process in wait_gone(processes, seconds):
        process.kill(signal.SIGKILL)
    wait_gone(processes, 5)
