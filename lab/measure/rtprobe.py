# SPDX-License-Identifier: Apache-2.0
"""Talking to rtprobe in a container over the network, as a user's client."""

import dataclasses
import pathlib
import subprocess
import sys
import time

from lab import paths
from lab.console import LabError

_BUILD = paths.CHECKOUT / 'lab' / 'guest' / 'build.sh'
_SOURCE = paths.CHECKOUT / 'lab' / 'guest' / 'rtprobe.c'
_CLIENT = paths.IMAGES / 'rtprobe'
# A load ends 10 s after the last request at the latest.
_LOAD_SLACK_S = 30


class ProbeError(LabError):
    """The service does not answer, or refuses; the message says which."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """The response time of one request at both ends, in microseconds.

    :ivar service_us: from the request's arrival at the container's network
        interface, as the kernel stamps it, to the end of the work.
    :ivar client_us: from the moment at which the request was due until the
        client has the answer.
    """

    service_us: int
    client_us: int


def client() -> pathlib.Path:
    """Return rtprobe for use outside a container, built if need be."""
    source = _SOURCE.stat().st_mtime
    if not _CLIENT.exists() or _CLIENT.stat().st_mtime < source:
        _CLIENT.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([_BUILD, '--probe', _CLIENT], check=True)
    return _CLIENT


class Probe:
    """The service in one container.

    :ivar ip: the container's address.
    """

    def __init__(self, ip: str) -> None:
        self.ip = ip

    def ask(self, *words: object) -> str:
        """Send one request and return the answer; verbs: see rtprobe.c.

        :raises ProbeError: on a refusal, or without an answer in 10 s.
        """
        done = subprocess.run(
            [client(), 'ask', self.ip, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ProbeError((done.stdout + done.stderr).strip())
        return done.stdout.strip()

    def wait(self, seconds: float = 60) -> None:
        """Wait until the service answers.

        :raises ProbeError: if it does not in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.ask('I')
                return
            except ProbeError:
                if time.monotonic() > deadline:
                    raise

    def hog(
        self,
        policy: str,
        priority: int = 0,
        cpu: int = -1,
        seconds: int = 60,
        count: int = 1,
    ) -> None:
        """Start endless loops in the container.

        :param policy: other, rr or fifo.
        :param cpu: -1 for any that the container may use.
        :raises ProbeError: when the kernel refuses policy or CPU.
        """
        self.ask('H', policy, priority, cpu, seconds, count)

    def quiet(self) -> None:
        """End all loops."""
        self.ask('K')

    def pin(self, cpu: int) -> None:
        """Keep the service, and loops started later, on one CPU."""
        self.ask('A', cpu)

    def runs_as(self) -> tuple[str, int, list[int]]:
        """Return policy, priority and CPUs of the service."""
        policy, priority, cpus = self.ask('I').split()
        return policy, int(priority), [int(cpu) for cpu in cpus.split(',')]

    def load(
        self,
        *,
        rate: int,
        service_us: int,
        count: int,
        seed: int,
        cpu: int | None = None,
    ) -> list[Answered | None]:
        """Send requests at random times (Poisson) and wait for all answers.

        :param rate: requests in a second, on average.
        :param service_us: CPU time that each costs the service.
        :param cpu: where the client runs; None: anywhere.
        :returns: the response times in the order of sending; None: no answer.
        :raises ProbeError: when the service does not answer at all.
        """
        command = [str(client()), 'load', self.ip]
        command += [str(n) for n in (rate, service_us, count, seed)]
        if cpu is not None:
            command = ['taskset', '--cpu-list', str(cpu), *command]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * count / rate + _LOAD_SLACK_S,
        )
        if done.returncode:
            raise ProbeError(done.stderr.strip())
        if done.stderr:
            print(done.stderr.strip(), file=sys.stderr)
        return [
            None if line == 'lost' else Answered(*map(int, line.split()))
            for line in done.stdout.splitlines()
        ]
