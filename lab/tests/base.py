# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests stand on: servers, and a look at everything.

Each test leaves the lab as it has found it, and is failed if it does not:
servers of a user may run meanwhile, and stay.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
import uuid

import pymysql

from lab import catalog, namespace, paths
from lab.measure import container
from lab.measure.rtprobe import Probe
from nova_rt import admission, extra_specs, node_stats, record
from nova_rt.reservation import Reservation

RESOURCE_CLASS = extra_specs.RESOURCE_CLASS
IMAGE = catalog.IMAGE
PLAIN = 'plain.small'
ACTIVE_S = 120
SETTLE_S = 30
INSTANCES = paths.VAR / 'nova' / 'instances'


def setup_once():
    """Fail with words where the tests cannot work."""
    if not namespace.inside():
        raise AssertionError(
            'these tests run in the lab: python -m lab up && python -m lab '
            'exec python -m unittest discover -t . -s lab/tests'
        )


@dataclasses.dataclass(frozen=True)
class Stats:
    """What the compute node publishes.

    :ivar free: CPU -> free ppm
    :ivar host_free: free ppm of the host; None where only CPUs count
    """

    free: dict
    host_free: int | None
    interface: str
    enforcement: str

    @property
    def capacity(self):
        return admission.Capacity(self.free, self.host_free)


class LabTestCase(unittest.TestCase):
    """A test on the running lab."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        setup_once()
        cls.cloud = catalog.connect()
        cls.addClassCleanup(cls.cloud.close)

    def setUp(self):
        super().setUp()
        self.before = self.look()
        self.addCleanup(self.assert_nothing_left)

    # Servers

    def create(self, flavor, *, network=False, hint=None, wait=True):
        """Create a server, and wait until it is ACTIVE."""
        server = self.request_server(flavor, network=network, hint=hint)
        if wait:
            return self.reach(server, 'ACTIVE')
        return server

    def request_server(self, flavor, *, network=False, hint=None, user=None):
        """Ask for a server, to be deleted at the end of the test.

        :param user: the connection of the user who asks; else the admin's
        """
        user = user or self.cloud
        networks = 'none'
        if network:
            found = self.cloud.network.find_network(
                catalog.NETWORK, ignore_missing=False
            )
            networks = [{'uuid': found.id}]
        hints = {} if hint is None else {'rt_reservation': hint}
        server = user.compute.create_server(
            name=f'e2e-{self._testMethodName}'[:60],
            image_id=self.cloud.image.find_image(
                IMAGE, ignore_missing=False
            ).id,
            flavor_id=self.cloud.compute.find_flavor(
                flavor, ignore_missing=False
            ).id,
            networks=networks,
            **({'scheduler_hints': hints} if hints else {}),
        )
        self.addCleanup(self.delete, server)
        return server

    def reach(self, server, status):
        """Wait for a status; an ERROR on the way fails the test."""
        deadline = time.monotonic() + ACTIVE_S
        while True:
            server = self.cloud.compute.get_server(server.id)
            if server.status == status and not server.task_state:
                return server
            fault = (server.fault or {}).get('message')
            if server.status == 'ERROR' or time.monotonic() > deadline:
                self.fail(
                    f'wanted {status}, is {server.status}, task '
                    f'{server.task_state}, fault: {fault}'
                )
            time.sleep(0.2)

    def delete(self, server):
        """Delete a server, if it is there still, and wait."""
        self.cloud.compute.delete_server(server.id, ignore_missing=True)
        self.cloud.compute.wait_for_delete(server, interval=0.2, wait=60)

    def flavor(self, specs, vcpus=1):
        """Make a flavor through the API that validates its extra specs."""
        name = f'e2e-{uuid.uuid4().hex[:8]}'
        made = self.cloud.compute.create_flavor(
            name=name, vcpus=vcpus, ram=128, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, made.id)
        answer = self.set_specs(name, specs)
        self.assertEqual(200, answer.status_code, answer.text)
        return name

    def rt_flavor(self, reservation, vcpus=1, **specs):
        """Make a real-time flavor for whatever kernel this is."""
        return self.flavor(
            {'rt:reservation': reservation, 'rt:enforcement': 'limit'}
            | {f'rt:{key}': value for key, value in specs.items()},
            vcpus,
        )

    def set_specs(self, flavor, specs):
        """Set extra specs at a microversion that validates them."""
        found = self.cloud.compute.find_flavor(flavor, ignore_missing=False)
        return self.cloud.compute.post(
            f'/flavors/{found.id}/os-extra_specs',
            json={'extra_specs': specs},
            microversion='2.86',
        )

    def probe(self, server):
        """Return the service in a server that has a port."""
        for addresses in server.addresses.values():
            for address in addresses:
                if address['version'] == 4:
                    probe = Probe(address['addr'])
                    probe.wait()
                    return probe
        self.fail(f'no address: {server.addresses}')

    def container(self, server):
        """Return the running container of a server."""
        found = container.Container.of(server.id)
        self.assertIsNotNone(found, 'no container runs')
        return found

    # What is claimed

    def stats(self):
        """Return what the compute node publishes, from Nova's database."""
        (text,) = self.select(
            'nova_cell1',
            'SELECT stats FROM compute_nodes WHERE deleted = 0',
        )
        stats = json.loads(text)
        free = node_stats.parse(stats)
        return Stats(
            free.cpus,
            free.host_ppm,
            stats['rt_interface'],
            stats['rt_enforcement'],
        )

    def record(self, server):
        """Return the record of a server, from Nova's database."""
        found = self.select(
            'nova_cell1',
            'SELECT value FROM instance_system_metadata WHERE deleted = 0 '
            "AND `key` = 'nova_rt' AND instance_uuid = %s",
            server.id,
        )
        return record.Record.decode(found[0]) if found else None

    def allocations(self, server):
        """Return what Placement holds for a server, of all its classes."""
        answer = self.cloud.placement.get(
            f'/allocations/{server.id}', microversion='1.39'
        )
        self.assertEqual(200, answer.status_code, answer.text)
        found = {}
        for provider in answer.json()['allocations'].values():
            found.update(provider['resources'])
        return found

    def assert_agree(self, server, reservation, cpus=1):
        """Kernel, record, Placement and tracker hold the same.

        The tracker has nothing but this server more than when the test began.
        """
        wanted = Reservation.parse(reservation)
        rec = self.record(server)
        self.assertEqual(wanted, rec.request.reservation)
        self.assertEqual(cpus, len(rec.cpus))
        found = self.container(server)
        self.assertEqual(reservation, str(found.held()))
        self.assertEqual(list(rec.cpus), found.cpus())
        self.assert_real_time(found)
        self.assert_claimed(server, rec)

    def assert_claimed(self, server, rec):
        """Placement and tracker hold what the record says."""
        self.assertEqual(
            rec.claim.total_ppm, self.allocations(server)[RESOURCE_CLASS]
        )
        self.assertEqual(
            self.before.stats.capacity.free([rec.claim]), self.stats().capacity
        )

    def assert_real_time(self, found, policy=os.SCHED_RR, priority=1):
        """Every process of a container has the policy."""
        for pid in found.processes():
            self.assertEqual(
                (policy, priority),
                (
                    os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK,
                    os.sched_getparam(pid).sched_priority,
                ),
                pathlib.Path(f'/proc/{pid}/cmdline').read_text(),
            )

    # What is there

    def look(self):
        """Return what a server could leave behind."""
        return World(
            servers=sorted(s.id for s in self.cloud.compute.servers()),
            domains=container.domains(),
            cgroups=_cgroups(),
            bandwidth=_bandwidth(),
            allocations=self._consumers(),
            ports=sorted(
                port.id
                for port in self.cloud.network.ports()
                if (port.device_owner or '').startswith('compute:')
            ),
            interfaces=sorted(os.listdir('/sys/class/net')),
            loops=_loops(),
            mounts=_mounts(),
            files=_instance_files(),
            flavors=sorted(f.id for f in self.cloud.compute.flavors()),
            stats=self.stats(),
        )

    def assert_nothing_left(self):
        """The lab is as it was when the test began.

        libvirt, the switch and the kernel take back what they gave a moment
        after the server is gone.
        """
        deadline = time.monotonic() + SETTLE_S
        while (now := self.look()) != self.before:
            if time.monotonic() > deadline:
                self.assertEqual(
                    dataclasses.asdict(self.before), dataclasses.asdict(now)
                )
            time.sleep(0.5)

    def wait_for(self, condition, message, seconds=60):
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(message)
            time.sleep(0.2)

    def _consumers(self):
        found = set()
        for provider in self.cloud.placement.resource_providers():
            answer = self.cloud.placement.get(
                f'/resource_providers/{provider.id}/allocations',
                microversion='1.39',
            )
            self.assertEqual(200, answer.status_code, answer.text)
            found.update(answer.json()['allocations'])
        return sorted(found)

    @staticmethod
    def select(database, query, *values):
        """Return the first column of what a query finds."""
        connection = pymysql.connect(
            unix_socket=str(paths.MYSQL_SOCKET), user='root', db=database
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return [row[0] for row in cursor.fetchall()]


@dataclasses.dataclass(frozen=True)
class World:
    """What is there at one moment."""

    servers: list
    domains: list
    cgroups: list
    bandwidth: dict
    allocations: list
    ports: list
    interfaces: list
    loops: list
    mounts: list
    files: list
    flavors: list
    stats: Stats


def lab(*words):
    """Run a command of the lab.

    :raises AssertionError: with what it said, if it fails
    """
    done = subprocess.run(
        [sys.executable, '-m', 'lab', *words],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(
            f'lab {" ".join(words)}: {done.stdout}{done.stderr}'
        )


def partitions():
    """Return libvirt's control group in every hierarchy that has it."""
    found = {top / 'machine' for top in container.hierarchies().values()}
    return sorted(path for path in found if path.is_dir())


def _cgroups():
    return sorted(
        str(path) for top in partitions() for path in top.rglob('*/')
    )


def _bandwidth():
    return {
        str(path): str(container.held(path))
        for path in partitions()
        if list(path.glob('cpu.rt*'))
    }


def _loops():
    found = []
    for path in pathlib.Path('/sys/block').glob('loop*/loop/backing_file'):
        try:
            text = path.read_text().strip()
        except FileNotFoundError:
            continue  # detached meanwhile
        if text.startswith(str(paths.VAR)):
            found.append(text)
    return sorted(found)


def _mounts():
    lines = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    mounts = [line.split()[4] for line in lines]
    return sorted(m for m in mounts if m.startswith(str(INSTANCES)))


def _instance_files():
    shared = {'_base', 'locks', 'compute_nodes', 'snapshots'}
    return sorted(set(os.listdir(INSTANCES)) - shared)
