# SPDX-License-Identifier: Apache-2.0
"""The demonstration, from an image to a picture of response times.

It runs in the lab's namespaces, reuses servers of an earlier run, and leaves
its real-time server to the user.
"""

from collections.abc import Sequence
import dataclasses
import os
import time

from openstack.compute.v2 import server as _server
from openstack.connection import Connection

from lab import catalog, cloud, console, paths
from lab.console import LabError
from lab.demo import stage
from lab.measure import distribution, machine, network
from lab.measure.container import Container, shares
from lab.measure.rtprobe import Answered, Probe

IMAGE = 'rtprobe'
FLAVOR = 'rt.demo'
RT_SERVER = 'rt-1'
PLAIN_SERVER = 'plain-1'
NOISE = ('noise-1', 'noise-2', 'noise-3')
HOGS_PER_NOISE = 2
RESULTS = paths.RESULTS / 'demo'
PICTURE = RESULTS / 'response-times.png'

HOG_S = 10
# Of the reservation; the kernel's own accounting is by the timer tick.
TOLERANCE = 0.02
# A twentieth of a CPU on average, a quarter of what rt.small reserves: so that
# chance alone does not exhaust the reservation, and what is seen is the CPU's
# delay and not a queue of the service's own making.
RATE = 50
SERVICE_US = 1000
REQUESTS = 1000


@dataclasses.dataclass(frozen=True)
class Cast:
    """The servers, as their users and as the kernel see them.

    :ivar cpu: where the real-time server has its reservation.
    """

    rt: Probe
    plain: Probe
    rt_container: Container
    plain_container: Container
    cpu: int


def tell() -> None:
    """Run the whole demonstration."""
    began = time.monotonic()
    connection = catalog.connect()
    limits = catalog.only_limits(connection)
    if limits:
        stage.warn(
            "this machine's kernel LIMITS real-time servers, it does not "
            'guarantee them their CPU: a server gets no more than it has '
            'reserved, and gets it as long as the real-time servers of its '
            'CPU do not ask for more than there is. A kernel with HCBS turns '
            'the same flavors into a guarantee.'
        )
    image(connection)
    _flavor(connection)
    _rt_server(connection)
    container = _kernel(connection)
    cast = _neighbour(connection, container)
    try:
        _bandwidth(cast)
        _response_times(connection, cast, limits)
    finally:
        _noise_off(connection)
    next_steps(time.monotonic() - began, 7, (RT_SERVER, PLAIN_SERVER), FLAVOR)


def image(connection: Connection) -> None:
    """Upload the image, unless it is there."""
    stage.heading(1, 'An image')
    if any(connection.image.images(name=IMAGE)):
        stage.say(f'The image {IMAGE} is there already.')
        return
    stage.openstack(
        *('image', 'create', IMAGE, '--file', str(cloud.IMAGE_FILE)),
        *('--disk-format', 'raw', '--container-format', 'bare', '--public'),
        *('-c', 'id', '-c', 'name', '-c', 'size', '-c', 'status'),
    )


def _flavor(connection: Connection) -> None:
    stage.heading(2, 'Flavors')
    stage.say(
        'One extra spec makes a flavor real-time: rt:reservation, so many '
        'microseconds of CPU in every period, on each vCPU. The resources and '
        'the trait keep its servers on hosts that can hold it.'
    )
    if FLAVOR not in {found.name for found in connection.compute.flavors()}:
        specs = catalog.rt_specs(5_000, 100_000, vcpus=1)
        stage.openstack(
            *('flavor', 'create', FLAVOR, '--ram', '128', '--disk', '1'),
            *(
                word
                for key, value in specs.items()
                for word in ('--property', f'{key}={value}')
            ),
            *('-c', 'name', '-c', 'vcpus', '-c', 'properties'),
        )
    stage.say('All flavors; the lab has made the others:')
    stage.openstack(
        *('flavor', 'list', '--long'),
        *('-c', 'Name', '-c', 'VCPUs', '-c', 'Properties'),
    )


def _rt_server(connection: Connection) -> None:
    stage.heading(3, 'A real-time server')
    if taken(connection, RT_SERVER):
        stage.say(f'The server {RT_SERVER} is there already.')
    else:
        create(RT_SERVER, 'rt.small')
    stage.openstack(
        *('server', 'list', '--long', '-c', 'Name', '-c', 'Status'),
        *('-c', 'Networks', '-c', 'Flavor', '-c', 'Host'),
    )
    stage.say(
        'A hint may ask for less than the flavor, for one server. What makes '
        'no sense is refused at once:'
    )
    stage.openstack(
        *('server', 'create', 'rt-2', '--flavor', 'rt.small'),
        *('--image', IMAGE, '--network', catalog.NETWORK),
        *('--hint', 'rt_reservation=3000/2000'),
        fails=True,
    )


def create(name: str, flavor: str, count: int = 1) -> None:
    """Create servers, and wait for the first."""
    several = ('--min', str(count), '--max', str(count)) if count > 1 else ()
    stage.openstack(
        *('server', 'create', name, '--flavor', flavor, '--image', IMAGE),
        *('--network', catalog.NETWORK, *several, '--wait'),
        *('-c', 'id', '-c', 'name', '-c', 'status'),
    )


def taken(connection: Connection, name: str) -> bool:
    """Take a server of an earlier run if it works, else remove it.

    :return: whether there is one to take.
    """
    found = _find(connection, name)
    if not found:
        return False
    if found.status == 'ACTIVE':
        return True
    stage.openstack('server', 'delete', '--wait', name)
    return False


def _kernel(connection: Connection) -> Container:
    stage.heading(4, 'What the kernel holds')
    container = _container(connection, RT_SERVER)
    probe = probe_of(connection, RT_SERVER)
    files = container.rt_files()
    cpuset = container.cpus()
    for path, text in files.items():
        print(f'$ cat {path}')
        stage.show(text)
    policy, priority, _ = probe.runs_as()
    listed = ', '.join(map(str, cpuset))
    stage.say(
        f'These are the files of the kernel itself. The server has CPU '
        f'{listed}, chosen as the one with the most bandwidth free, and a '
        f'program in it runs with policy {policy} and priority {priority}, '
        'without any privilege of its own.'
    )
    return container


def _neighbour(connection: Connection, rt: Container) -> Cast:
    stage.heading(5, 'The bandwidth that a CPU-hungry program gets')
    if taken(connection, PLAIN_SERVER):
        stage.say(f'The plain server {PLAIN_SERVER} is there already.')
    else:
        create(PLAIN_SERVER, 'plain.small')
    cast = Cast(
        rt=probe_of(connection, RT_SERVER),
        plain=probe_of(connection, PLAIN_SERVER),
        rt_container=rt,
        plain_container=_container(connection, PLAIN_SERVER),
        cpu=rt.cpus()[0],
    )
    # On the same CPU: else it would just move to a quiet one.
    cast.plain.pin(cast.cpu)
    return cast


def _bandwidth(cast: Cast) -> None:
    stage.say(
        f'An endless loop in {RT_SERVER} (policy rr) and one in '
        f'{PLAIN_SERVER}, both on CPU {cast.cpu}, for {HOG_S} s; the CPU time '
        'is what the kernel has counted.'
    )
    cast.rt.hog('rr', 1, seconds=HOG_S + 5)
    cast.plain.hog('other', seconds=HOG_S + 5)
    time.sleep(1)
    got_rt, got_plain = shares(
        [cast.rt_container, cast.plain_container], HOG_S
    )
    cast.plain.quiet()
    cast.rt.quiet()
    held = cast.rt_container.held()
    reserved = held.runtime_us / held.period_us
    stage.show(
        f'\n{RT_SERVER:<9}{bar(got_rt)} {got_rt:6.2%} of CPU {cast.cpu}, '
        f'reserved {reserved:.2%} ({held} us)\n'
        f'{PLAIN_SERVER:<9}{bar(got_plain)} {got_plain:6.2%}'
    )
    off = abs(got_rt / reserved - 1)
    if off > TOLERANCE:
        stage.warn(
            f'that is {off:.1%} off the reservation, more than {TOLERANCE:.0%}'
            ': is something else real-time on this CPU?'
        )
        return
    rest = 'its neighbour kept the rest.'
    if got_plain < (1 - got_rt) * 0.9:
        rest = 'its neighbour shared the rest with other programs.'
    stage.say(
        f'The real-time program got what is reserved, to {off:.1%}, although '
        f'it asked for everything; {rest}'
    )


def bar(share: float) -> str:
    """Draw a share of a CPU."""
    return '#' * round(share * 30) + '.' * (30 - round(share * 30))


def _response_times(connection: Connection, cast: Cast, limits: bool) -> None:
    stage.heading(6, 'Response times beside noisy neighbours')
    stage.say(
        f'Both servers run the same small service: {SERVICE_US / 1000:g} ms '
        f'of CPU time for each request. A client sends {RATE} requests/s over '
        'the network at random times: first with the CPU quiet, then beside '
        f'{len(NOISE)} plain servers that keep CPU {cast.cpu} busy. The '
        "response time is the service's own: from the arrival of a request at "
        "the container's network interface, as the kernel stamps it, to the "
        'end of the work. A second table has the times that the client sees. '
        'The client and the virtual switch run at real-time priority, on '
        'another CPU if there is one, since they deliver the requests and are '
        'not what is measured.'
    )
    client = _other_cpu(cast.cpu)
    busy, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if busy > cpus:
        stage.warn(
            f'this machine is busy with other work (load {busy:.1f} on {cpus} '
            'CPUs), which makes the plain server slower, also where the table '
            'says "alone".'
        )
    runs = [
        _measure('plain', distribution.ALONE, cast.plain, client),
        _measure('real-time', distribution.ALONE, cast.rt, client),
    ]
    _noise_on(connection, cast.cpu)
    beside = f'{len(NOISE)} noisy servers'
    runs += [
        _measure('plain', beside, cast.plain, client),
        _measure('real-time', beside, cast.rt, client),
    ]
    service = [run.service() for run in runs]
    tables = (
        'The service, from arrival to the end of the work:\n\n'
        f'{distribution.table(service)}\n\n'
        'The same requests for the client, with the virtual switch in both '
        'directions:\n\n'
        f'{distribution.table([run.client() for run in runs])}\n\n'
        'milliseconds; p99: 99 % were answered in time'
    )
    print()
    stage.show(tables)
    _save(runs, tables)
    _draw(service, cast, limits, client)
    _conclude(service)


@dataclasses.dataclass(frozen=True)
class _Run:
    """The answers of one service under one condition; see Series."""

    server: str
    beside: str
    answers: list[Answered | None]

    def service(self) -> distribution.Series:
        """Return the times that the service took."""
        return self._series(
            [a.service_us if a else None for a in self.answers]
        )

    def client(self) -> distribution.Series:
        """Return the times after which the client had its answers."""
        return self._series([a.client_us if a else None for a in self.answers])

    def _series(self, times_us: list[int | None]) -> distribution.Series:
        return distribution.Series.of(self.server, self.beside, times_us)


def _measure(
    server: str, beside: str, probe: Probe, client: int | None
) -> _Run:
    print(
        f'    {server}, {beside}: {REQUESTS} requests, '
        f'{REQUESTS // RATE} s ...',
        flush=True,
    )
    with network.ahead(client):
        answers = probe.load(
            rate=RATE,
            service_us=SERVICE_US,
            count=REQUESTS,
            seed=1,
            cpu=client,
        )
    return _Run(server, beside, answers)


def _other_cpu(cpu: int) -> int | None:
    # The client must not take time from the servers, nor they from it; with
    # one CPU only there is no choice.
    others = sorted(os.sched_getaffinity(0) - {cpu})
    if not others:
        stage.warn(
            'this machine has one CPU: the client shares it with the noise, '
            'and all response times below are longer for it.'
        )
        return None
    return others[-1]


def _noise_on(connection: Connection, cpu: int) -> None:
    print()
    if not all(taken(connection, name) for name in NOISE):
        _noise_off(connection)
        create('noise', 'plain.small', len(NOISE))
    for name in NOISE:
        probe = probe_of(connection, name)
        probe.quiet()
        probe.pin(cpu)
        probe.hog('other', seconds=600, count=HOGS_PER_NOISE)


def _noise_off(connection: Connection) -> None:
    found = {server.name for server in connection.compute.servers()}
    names = [name for name in NOISE if name in found]
    if names:
        print()
        stage.openstack('server', 'delete', '--wait', *names)


def _save(runs: list[_Run], tables: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / 'response-times.txt').write_text(f'{tables}\n')
    for run in runs:
        lines = [
            f'{answer.service_us} {answer.client_us}' if answer else 'lost'
            for answer in run.answers
        ]
        raw = RESULTS / f'{run.server}-{run.beside.replace(" ", "-")}.us'
        raw.write_text('\n'.join(lines) + '\n')


def _draw(
    series: list[distribution.Series],
    cast: Cast,
    limits: bool,
    client: int | None,
) -> None:
    plain, rt = series[2], series[3]
    held = cast.rt_container.held()
    where = 'the same CPU' if client is None else f'CPU {client}'
    distribution.picture(
        series,
        'Response times with and without a reservation',
        f'{SERVICE_US / 1000:g} ms service, {rt.beside} on its CPU: 99 % '
        f'within {_ms(plain)} plain, {_ms(rt)} real-time',
        f'Reservation {held} us on CPU {cast.cpu}, the kernel '
        f'{"limits" if limits else "guarantees"}. {RATE} requests/s at random '
        f'times (Poisson), {REQUESTS} a curve, client and switch on {where}.\n'
        "From a request's arrival at the container's network interface to the "
        f'end of its work. Noise: {len(NOISE)} plain servers, '
        f'{HOGS_PER_NOISE} endless loops each.\n{machine.describe()}',
        PICTURE,
    )


def _conclude(series: list[distribution.Series]) -> None:
    plain, rt = series[2], series[3]
    alone = series[1].percentile(99)
    print()
    stage.say(
        f'Beside its noisy neighbours the plain server answers 99 % of the '
        f'requests within {_ms(plain)}, the real-time server within '
        f'{_ms(rt)}: {rt.percentile(99) / alone:.2f} times what it takes '
        'alone.'
    )
    stage.say(f'The picture: {PICTURE}')


def _ms(series: distribution.Series) -> str:
    return f'{series.percentile(99) / 1000:.1f} ms'


def probe_of(connection: Connection, name: str) -> Probe:
    """Return the service in a server, once it answers."""
    server = found_server(connection, name)
    for addresses in (server.addresses or {}).values():
        for address in addresses:
            if address['version'] == 4:
                probe = Probe(address['addr'])
                probe.wait()
                return probe
    raise LabError(f'the server {name} has no address')


def _container(connection: Connection, name: str) -> Container:
    container = Container.of(found_server(connection, name).id)
    if not container:
        raise LabError(f'no container of the server {name} runs')
    return container


def _find(connection: Connection, name: str) -> _server.Server | None:
    listed = connection.compute.servers(name=f'^{name}$')
    return next(iter(listed), None)


def found_server(connection: Connection, name: str) -> _server.Server:
    """Return a server, once it is ACTIVE."""
    found = _find(connection, name)
    if not found:
        raise LabError(f'there is no server {name}')
    # The client waits for the first of several only.
    return connection.compute.wait_for_server(found, interval=0.5, wait=120)


def next_steps(
    seconds: float, number: int, servers: Sequence[str], flavor: str
) -> None:
    """Say how to go on.

    :param number: of the part.
    :param servers: those that run still.
    """
    stage.heading(number, 'What to try next')
    openstack = f'{console.SUDO}{paths.BIN}/openstack'
    lab = f'{console.SUDO}{paths.VENV}/bin/python -m lab'
    stage.say(
        f'The demonstration took {seconds:.0f} s. {" and ".join(servers)} '
        'still run:'
    )
    stage.show(
        f'{openstack} server list\n'
        f'{openstack} server reboot --hard --wait {RT_SERVER}\n'
        f'{openstack} server create more --flavor {flavor} --image {IMAGE} '
        f'--network {catalog.NETWORK} --wait\n'
        f'{openstack} console log show {RT_SERVER}\n'
        f'{lab} shell   # inside the lab\n'
        f'{lab} down    # remove everything again'
    )
