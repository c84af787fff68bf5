# SPDX-License-Identifier: Apache-2.0
"""A small service in a container, and its client on this machine.

It is rtprobe of nova_rt's lab: the image runs ``rtprobe serve``, and an option
names the program here.
"""

from collections.abc import Sequence
import subprocess
import time
from typing import Any

from tempest import config

CONF = config.CONF


class ProbeError(Exception):
    """The service does not answer, or refuses; the text says which."""


def reach(server: dict[str, Any], seconds: float) -> str:
    """Wait until the service in a server answers.

    :param server: as Nova shows it
    :returns: its address
    """
    addresses = [
        each['addr']
        for network in server['addresses'].values()
        for each in network
        if each['version'] == 4
    ]
    if not addresses:
        raise ProbeError(f'server {server["id"]} has no IPv4 address')
    wait(addresses[0], seconds)
    return str(addresses[0])


def wait(address: str, seconds: float) -> None:
    """Wait until the service at an address answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _run('ask', address, 'I')
            return
        except ProbeError:
            if time.monotonic() > deadline:
                raise


def times_us(
    address: str,
    *,
    rate: int,
    service_us: int,
    count: int,
    exponential: bool = False,
) -> Sequence[int]:
    """Send requests at random times; return how long each took, ascending.

    From the arrival at the container's network interface, as the kernel
    stamps it, to the end of the work: the client's own delays do not count.
    Requests without an answer are left out.

    :param rate: requests in a second, on average
    :param service_us: CPU time that each costs the service
    :param exponential: it is the mean of exponential times
    """
    words = ['load', address, str(rate), str(service_us), str(count), '1']
    if exponential:
        words.append('exponential')
    lines = _run(*words, timeout=2 * count / rate + 60).splitlines()
    return sorted(int(line.split()[0]) for line in lines if line != 'lost')


def _run(*words: str, timeout: float = 30) -> str:
    try:
        done = subprocess.run(
            [CONF.nova_rt.rtprobe, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as err:
        raise ProbeError(f'{words}: no end after {timeout} s') from err
    if done.returncode:
        raise ProbeError((done.stdout + done.stderr).strip())
    return done.stdout
