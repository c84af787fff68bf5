# SPDX-License-Identifier: Apache-2.0
"""The servers of the experiment, and the noise beside them."""

from collections.abc import Iterator
import contextlib
import dataclasses
import pathlib
import socket
import time
from typing import Self

from openstack.connection import Connection

from experiments import places, servers
from experiments.ims import image
from lab import catalog
from lab.console import LabError

_HERE = pathlib.Path(__file__).parent
_NAME = 'ims'
_READY_S = 600
_NOISE_S = 3600

#: Four tasks that want a CPU for 5 ms every 100 ms.
_PERIODIC = (_HERE / 'guest/noise.pl').read_text()
_NOISE_MS = 5


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of servers.

    :ivar word: plain or real-time
    :ivar beside: name of its noise
    :ivar reservation: reservation of the server; empty for none
    :ivar noise: reservation of its noise; empty for none
    :ivar scheduler: options of chrt for the noise
    """

    word: str
    beside: str
    reservation: str
    noise: str
    scheduler: tuple[str, str]


PLAIN = Kind('plain', 'noise', '', '', ('--other', '0'))
RT = Kind('real-time', 'noise', '1000/2000', '', ('--other', '0'))
# Stock Linux sums reservations over the host: there is no room for the paper's
# 0.7 and 0.24 CPUs and the filler that keeps them on one CPU.
RT_BESIDE_RT = Kind(
    'real-time', 'rt noise', '1000/2000', '20000/100000', ('--rr', '1')
)
KINDS = (PLAIN, RT, RT_BESIDE_RT)
# More than the noise, for the other CPU, so that the server goes to its CPU.
_FILLER = '21000/100000'


@dataclasses.dataclass(frozen=True)
class Server:
    """A server with Kamailio."""

    ip: str
    cpu: int


class Cloud:
    """The experiment's objects in the lab's cloud; deleted at the end."""

    def __init__(self, connection: Connection) -> None:
        self._cloud = connection
        self._stack = contextlib.ExitStack()
        self._noise: places.Place | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            made = self._cloud.image.create_image(
                name=_NAME, disk_format='raw', container_format='bare',
                filename=str(image.build()), validate_checksum=False,
            )  # fmt: skip
            stack.callback(self._cloud.image.delete_image, made)
            self.servers = servers.Servers(self._cloud, _NAME, made.id)
            stack.callback(self.servers.delete)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *args: object) -> None:
        self._stack.close()

    def server(self, kind: Kind) -> Server:
        """Boot a server and its noise, on the same CPU."""
        noise = self.servers.boot('noise', kind.noise)
        self._noise = places.Place.of(self._cloud, noise.id)
        cpus = self._noise.cpus
        filler = self.servers.boot('filler', _FILLER) if kind.noise else None
        server = self.servers.boot(
            _NAME, kind.reservation, network=True, ram_mb=1024
        )
        if filler:
            self.servers.delete(filler)
        ip = servers.address(server)
        found = places.Place.of(self._cloud, server.id)
        if not kind.noise:
            cpus = found.cpus[:1]
        elif found.cpus != cpus:
            raise LabError(f'it is on {found.cpus}, its noise on {cpus}')
        _wait(ip)
        # One vCPU, which stock LXC does not bind to a CPU.
        found.bind(cpus)
        return Server(ip, cpus[0])

    @contextlib.contextmanager
    def noise(self, kind: Kind, cpu: int, wanted: bool) -> Iterator[None]:
        """Run the noise for a while."""
        found = self._noise
        if not wanted or found is None:
            yield
            return
        words = ['perl', '-e', _PERIODIC, str(_NOISE_S), str(_NOISE_MS)]
        with found.inside(words, kind.scheduler, cpu):
            yield


def _wait(ip: str) -> None:
    """Wait until Kamailio answers."""
    deadline = time.monotonic() + _READY_S
    request = (
        f'OPTIONS sip:{ip} SIP/2.0\r\nVia: SIP/2.0/UDP {catalog.GATEWAY};'
        'branch=z9hG4bKwait\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>\r\n'
        'Call-ID: wait\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n'
    )
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        asking.settimeout(1)
        asking.bind((str(catalog.GATEWAY), 5060))
        while True:
            try:
                asking.sendto(request.encode(), (ip, 5060))
                asking.recv(2000)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise LabError(f'{ip} does not answer') from None
                time.sleep(0.2)
