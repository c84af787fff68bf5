# SPDX-License-Identifier: Apache-2.0
"""All that servers and tests could leave behind in the lab, at one moment."""

import dataclasses
import json
import os
import pathlib
import time
from typing import Any

from openstack import exceptions as sdk_exceptions
from openstack.connection import Connection
import pymysql

from lab import namespace, node, paths, second
from lab.measure import container
from lab.node import group
from lab.node import services as node_services
from nova_rt.reservation import admission, node_stats

INSTANCES = paths.VAR / 'nova' / 'instances'
#: The lab's path of those of the second compute, which sees them at INSTANCES.
SECOND_INSTANCES = second.INSTANCES

_SETTLE_S = 120


@dataclasses.dataclass(frozen=True)
class Stats:
    """The stats that a compute node publishes.

    :ivar free: CPU -> free ppm
    :ivar host_free: free ppm of the host; None where only CPUs count
    """

    free: dict[int, int]
    host_free: int | None
    interface: str
    enforcement: str

    @property
    def capacity(self) -> admission.Capacity:
        """The free bandwidth, as the pure functions take it."""
        return admission.Capacity(self.free, self.host_free)


@dataclasses.dataclass(frozen=True)
class World:
    """Everything that is there at one moment.

    :ivar nodes: what servers have on each node that is on, by its host
    :ivar hosts: published by each compute node, by the name of its host
    """

    servers: list[str]
    domains: list[str]
    cgroups: list[str]
    bandwidth: dict[str, str]
    allocations: list[str]
    ports: list[str]
    interfaces: list[str]
    loops: list[str]
    mounts: list[str]
    files: list[str]
    flavors: list[str]
    images: list[str]
    groups: list[str]
    policies: list[str]
    projects: list[str]
    users: list[str]
    limits: list[str]
    nodes: dict[str, list[str]]
    hosts: dict[str, Stats]


def look(cloud: Connection) -> World:
    """Return the present world."""
    return World(
        servers=_ids(cloud.compute.servers(all_projects=True)),
        domains=container.domains(),
        cgroups=_cgroups(),
        bandwidth=_bandwidth(),
        allocations=_consumers(cloud),
        ports=_ids(
            port
            for port in cloud.network.ports()
            if (port.device_owner or '').startswith('compute:')
        ),
        interfaces=_interfaces(),
        loops=_loops(),
        mounts=_mounts(),
        files=_instance_files(),
        flavors=_ids(cloud.compute.flavors(is_public=None)),
        images=_ids(cloud.image.images()),
        groups=_ids(cloud.network.security_groups()),
        policies=_ids(cloud.network.qos_policies()),
        projects=_ids(cloud.identity.projects()),
        users=_ids(cloud.identity.users()),
        limits=_ids(cloud.identity.limits()),
        nodes=_on_nodes(),
        hosts=all_stats(),
    )


def left(cloud: Connection, before: World) -> dict[str, Any]:
    """Return the differences: name -> (before, now).

    libvirt, the switch and the kernel free things a moment after a server is
    gone.
    """
    deadline = time.monotonic() + _SETTLE_S
    while (now := look(cloud)) != before:
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return {
        field.name: both
        for field in dataclasses.fields(World)
        for both in [(getattr(before, field.name), getattr(now, field.name))]
        if both[0] != both[1]
    }


def instances(host: str) -> pathlib.Path:
    """Return where the lab finds the files of a host's servers."""
    return SECOND_INSTANCES if host == second.HOST else INSTANCES


def hosts() -> list[str]:
    """Return the compute hosts of the lab, dead or alive."""
    own = [namespace.HOST_NAME] if second.first() else []
    own += [second.HOST] if second.wanted() else []
    return own + [each.host for each in node.nodes()]


def stats(host: str) -> Stats:
    """Return the published bandwidth of a host, from Nova's database.

    A dead host has its last publication.
    """
    (text,) = select(
        'nova_cell1',
        'SELECT stats FROM compute_nodes WHERE deleted = 0 AND host = %s',
        host,
    )
    found = json.loads(text)
    free = node_stats.parse(found)
    assert free is not None
    return Stats(
        dict(free.cpus),
        free.host_ppm,
        found['rt_interface'],
        found['rt_enforcement'],
    )


def all_stats() -> dict[str, Stats]:
    """Return the published bandwidth of each host, by its name."""
    return {host: stats(host) for host in hosts()}


def select(database: str, query: str, *values: object) -> list[Any]:
    """Return the first column of the result of a query."""
    connection = pymysql.connect(
        unix_socket=str(paths.MYSQL_SOCKET), user='root', db=database
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(query, values)
        return [row[0] for row in cursor.fetchall()]


def execute(database: str, statement: str, *values: object) -> None:
    """Change a database, as nobody but a test should."""
    connection = pymysql.connect(
        unix_socket=str(paths.MYSQL_SOCKET), user='root', db=database,
        autocommit=True,
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values)


def partitions() -> list[pathlib.Path]:
    """Return libvirt's control groups in every hierarchy that has them."""
    found = {
        top / below / 'machine'
        for top in container.hierarchies().values()
        for below in ('', second.HOST)
    }
    return sorted(path for path in found if path.is_dir())


def _ids(found: Any) -> list[str]:
    return sorted(each.id for each in found)


def _consumers(cloud: Connection) -> list[str]:
    found: set[str] = set()
    for provider in cloud.placement.resource_providers():
        answer = cloud.placement.get(
            f'/resource_providers/{provider.id}/allocations',
            microversion='1.39',
        )
        sdk_exceptions.raise_from_response(answer)
        found.update(answer.json()['allocations'])
    return sorted(found)


def _cgroups() -> list[str]:
    return sorted(
        str(path) for top in partitions() for path in top.rglob('*/')
    )


def _bandwidth() -> dict[str, str]:
    return {
        str(path): str(container.held(path))
        for path in partitions()
        if list(path.glob('cpu.rt*'))
    }


def _loops() -> list[str]:
    found = []
    for path in pathlib.Path('/sys/block').glob('loop*/loop/backing_file'):
        try:
            text = path.read_text().strip()
        except FileNotFoundError:
            continue  # detached meanwhile
        if text.startswith(str(paths.VAR)):
            found.append(text)
    return sorted(found)


def _on_nodes() -> dict[str, list[str]]:
    table = node_services.beside()
    return {
        each.host: group.left(each)
        for each in node.nodes()
        if table[each.name].running()
    }


def _interfaces() -> list[str]:
    found = os.listdir('/sys/class/net')
    if second.holder():
        names = os.listdir(second.path('/sys/class/net'))
        found += [f'{second.HOST}: {name}' for name in names]
    return sorted(found)


def _mounts() -> list[str]:
    lines = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    kept = second.holder()
    if kept:
        lines += namespace.mounts(kept.pid).splitlines()
    mounts = [line.split()[4] for line in lines]
    ours = str(INSTANCES), str(SECOND_INSTANCES)
    return sorted(mount for mount in mounts if mount.startswith(ours))


def _instance_files() -> list[str]:
    shared = {'_base', 'locks', 'compute_nodes', 'snapshots'}
    found = set(os.listdir(INSTANCES)) - shared
    if second.wanted():
        names = set(os.listdir(SECOND_INSTANCES)) - shared
        found |= {f'{second.HOST}: {name}' for name in names}
    return sorted(found)
