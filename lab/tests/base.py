# SPDX-License-Identifier: Apache-2.0
"""Basis of the end-to-end tests: servers, and a look at everything.

Each test leaves the lab as it has found it, and fails if it does not. Servers
of a user may run meanwhile, and stay.
"""

import os
import pathlib
import subprocess
import sys
import time
import unittest
import uuid

from lab import catalog, namespace, paths, second, world
from lab.measure import container
from lab.measure.rtprobe import Probe
from lab.tests.reports import manage
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.reservation import Reservation

RESOURCE_CLASS = extra_specs.RESOURCE_CLASS
IMAGE = catalog.IMAGE
PLAIN = 'plain.small'
ACTIVE_S = 120


def setup_once():
    """Fail with words where the tests cannot work."""
    if not namespace.inside():
        raise AssertionError(
            'these tests run in the lab: python -m lab up && python -m lab '
            'exec python -m unittest discover -t . -s lab/tests'
        )


class LabTestCase(unittest.TestCase):
    """A test on the running lab.

    :cvar on_first: whether all servers are to be on the first host, of which
        the test breaks or reads something
    :cvar active_s: seconds that a server gets to become ACTIVE, or to go
    :cvar disk_gb: of flavors of the test; 0: as large as the image
    """

    maxDiff = None
    on_first = False
    active_s = ACTIVE_S
    disk_gb = catalog.DISK_GB

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
        if self.on_first and second.wanted():
            self.enable(second.HOST, False)
            self.addCleanup(self.enable, second.HOST, True)

    def enable(self, host, wanted):
        """Let new servers go to a host, or to others only."""
        compute = self.cloud.compute
        (service,) = compute.services(binary='nova-compute', host=host)
        change = compute.enable_service if wanted else compute.disable_service
        change(service)

    # Servers

    def create(self, flavor, *, network=False, hint=None, wait=True):
        """Create a server, and wait until it is ACTIVE."""
        server = self.request_server(flavor, network=network, hint=hint)
        if wait:
            return self.reach(server, 'ACTIVE')
        return server

    def request_server(
        self, flavor, *, network=False, hint=None, user=None, **more
    ):
        """Ask for a server, to be deleted at the end of the test.

        :param user: the connection of the user; else the admin's
        :param more: attributes of the request
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
            **more,
        )
        self.addCleanup(self.delete, server)
        return server

    def reach(self, server, status):
        """Wait for a status; an ERROR on the way fails the test."""
        deadline = time.monotonic() + self.active_s
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
        self.cloud.compute.wait_for_delete(
            server, interval=0.2, wait=self.active_s
        )

    def flavor(self, specs, vcpus=1):
        """Make a flavor through the API that validates its extra specs."""
        name = f'e2e-{uuid.uuid4().hex[:8]}'
        made = self.cloud.compute.create_flavor(
            name=name, vcpus=vcpus, ram=128, disk=self.disk_gb
        )
        self.addCleanup(self.cloud.compute.delete_flavor, made.id)
        answer = self.set_specs(name, specs)
        self.assertEqual(200, answer.status_code, answer.text)
        return name

    def rt_flavor(self, reservation, vcpus=1, **specs):
        """Make a real-time flavor for this kernel."""
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

    def host_of(self, server):
        """Return the name of the host on which Nova says a server is."""
        return self.cloud.compute.get_server(server.id).compute_host

    def stats(self):
        """Return the published bandwidth of each compute node, by host."""
        return world.all_stats()

    def record(self, server):
        """Return the record of a server, from Nova's database."""
        found = world.select(
            'nova_cell1',
            'SELECT value FROM instance_system_metadata WHERE deleted = 0 '
            "AND `key` = 'nova_rt' AND instance_uuid = %s",
            server.id,
        )
        return record.Record.decode(found[0]) if found else None

    def allocations(self, server):
        """Return the allocations of a server, of all its classes."""
        answer = self.cloud.placement.get(
            f'/allocations/{server.id}', microversion='1.39'
        )
        self.assertEqual(200, answer.status_code, answer.text)
        found = {}
        for provider in answer.json()['allocations'].values():
            found.update(provider['resources'])
        return found

    def assert_nothing_allocated(self, server):
        """Wait for it: Nova gives it up after it has deleted the server."""
        self.wait_for(
            lambda: not self.allocations(server),
            lambda: f'still allocated: {self.allocations(server)}',
        )

    def assert_agree(self, server, reservation, cpus=1):
        """Kernel, record, Placement and tracker hold the same.

        The trackers have nothing but this server more than when the test
        began.
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
        """Placement and the host's tracker agree with the record."""
        self.assertEqual(
            rec.total_ppm, self.allocations(server)[RESOURCE_CLASS]
        )
        wanted = {
            host: stats.capacity for host, stats in self.before.hosts.items()
        }
        host = self.host_of(server)
        wanted[host] = wanted[host].free([rec])
        found = {host: each.capacity for host, each in self.stats().items()}
        self.assertEqual(wanted, found)

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
        """Return all things that a server could leave behind."""
        return world.look(self.cloud)

    def assert_nothing_left(self):
        """The lab is as it was when the test began."""
        self.assertEqual({}, world.left(self.cloud, self.before))

    def wait_for(self, condition, message, seconds=ACTIVE_S):
        """Wait until something is so.

        :param message: the text if it is not; or a function that makes it
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(message() if callable(message) else message)
            time.sleep(0.2)

    def wait_for_audit(self, seconds=ACTIVE_S):
        """Wait until records, Placement and kernels agree."""
        self.wait_for(
            lambda: manage('audit') == (0, []),
            lambda: f'the audit finds {manage("audit")}',
            seconds,
        )


def lab(*words):
    """Run a command of the lab.

    :raises AssertionError: with its output, if it fails
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
