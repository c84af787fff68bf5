# SPDX-License-Identifier: Apache-2.0
"""Basis of the tests: servers, and a look at all that they hold.

Each test leaves nothing behind, and fails if it does. Other tests, and the
users of the cloud, may have servers meanwhile: a test looks only at its own.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import json
import time
from typing import Any

from tempest import config, test
from tempest.lib import exceptions as lib_exc
from tempest.lib.common import api_version_utils
from tempest.lib.common.utils import data_utils
from tempest.lib.services.compute import base_compute_client

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import container, transport

CONF = config.CONF

BANDWIDTH = 'CUSTOM_RT_BANDWIDTH'
LIMIT = 'CUSTOM_RT_LIMIT'
GUARANTEE = 'CUSTOM_RT_GUARANTEE'

#: Nova validates extra specs from this microversion on.
MICROVERSION = '2.86'
PLACEMENT_MICROVERSION = '1.36'

_POLL_S = 0.5


def ppm(reservation: str) -> int:
    """Return the bandwidth of a reservation, in ppm of a CPU, rounded up."""
    runtime, period = map(int, reservation.split('/'))
    return -(-runtime * 10**6 // period)


def times(reservation: str, factor: float) -> str:
    """Return a reservation of another runtime and the same period."""
    runtime, period = map(int, reservation.split('/'))
    return f'{int(runtime * factor)}/{period}'


@dataclasses.dataclass(frozen=True)
class Left:
    """All that is there of one server, on any host and in any service.

    :ivar domain: whether libvirt knows it
    :ivar allocations: in Placement
    :ivar ports: IDs of its ports
    :ivar reported: whether the exporter knows it
    """

    domain: bool = False
    allocations: tuple[tuple[str, int], ...] = ()
    ports: tuple[str, ...] = ()
    reported: bool = False


class RTTest(test.BaseTestCase):
    """A test on a cloud with nova_rt.

    Servers belong to a user of a project; the administrator makes flavors and
    looks at things that users cannot see.

    :cvar NEEDS_HOSTS: its tests look at compute hosts
    """

    credentials = ['primary', 'admin']
    NEEDS_HOSTS = False
    #: Seconds that are waited, instead of the configured ones.
    settle_s: float | None = None

    # Classes of tests

    @classmethod
    def skip_checks(cls) -> None:
        """Skip where the cloud or the access is missing."""
        super().skip_checks()
        if not CONF.service_available.nova_rt:
            raise cls.skipException('[service_available] nova_rt is not set')
        if not CONF.compute.image_ref:
            raise cls.skipException('[compute] image_ref is not set')
        if cls.NEEDS_HOSTS and CONF.nova_rt.host_access == 'none':
            raise cls.skipException(
                '[nova_rt] host_access is none: it cannot look at hosts'
            )
        api_version_utils.check_skip_with_microversion(
            MICROVERSION,
            'latest',
            CONF.compute.min_microversion,
            CONF.compute.max_microversion,
        )

    @classmethod
    def setup_credentials(cls) -> None:
        """Servers that want a network take the one that is there."""
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def setup_clients(cls) -> None:
        """Give the clients short names."""
        super().setup_clients()
        cls.servers = cls.os_primary.servers_client
        cls.admin_servers = cls.os_admin.servers_client
        cls.flavors = cls.os_admin.flavors_client
        cls.providers = cls.os_admin.resource_providers_client
        cls.placement = cls.os_admin.placement_client

    @classmethod
    def resource_setup(cls) -> None:
        """Speak the versions of the APIs that the tests are written for."""
        super().resource_setup()
        cls.setup_api_microversion_fixture(
            compute_microversion=MICROVERSION,
            placement_microversion=PLACEMENT_MICROVERSION,
        )
        if CONF.nova_rt.host_access == 'local':
            found = cls.rt_hosts()
            if len(found) != 1:
                raise cls.skipException(
                    f'[nova_rt] host_access is local, and the cloud has '
                    f'{len(found)} hosts with real-time servers'
                )

    @classmethod
    def rt_providers(cls) -> dict[str, str]:
        """Return the hosts that offer bandwidth: name -> provider's UUID."""
        try:
            found = cls.providers.list_resource_providers(required=LIMIT)
        except lib_exc.BadRequest:
            # No host has ever had the trait.
            return {}
        return {
            each['name']: each['uuid'] for each in found['resource_providers']
        }

    @classmethod
    def rt_hosts(cls) -> list[str]:
        """Return the names of the hosts that offer bandwidth."""
        return sorted(cls.rt_providers())

    # Flavors

    @staticmethod
    def rt_specs(reservation: str, **specs: str) -> dict[str, str]:
        """Return the extra specs of a real-time flavor.

        :param specs: ``policy``, ``priority`` and the like
        """
        return {
            'rt:reservation': reservation,
            'rt:enforcement': CONF.nova_rt.enforcement,
        } | {f'rt:{key}': value for key, value in specs.items()}

    @staticmethod
    def counted_specs(reservation: str, vcpus: int = 1) -> dict[str, str]:
        """Return the extra specs that let the limits of projects count."""
        return {
            f'resources:{BANDWIDTH}': str(vcpus * ppm(reservation)),
            'resources:VCPU': '0',
        }

    def flavor(self, specs: dict[str, str], vcpus: int = 1) -> str:
        """Make a flavor; return its ID."""
        made = self.flavors.create_flavor(
            name=data_utils.rand_name('rt', prefix=CONF.resource_name_prefix),
            vcpus=vcpus,
            ram=CONF.nova_rt.flavor_ram,
            disk=CONF.nova_rt.flavor_disk,
        )['flavor']['id']
        self.addCleanup(self.flavors.delete_flavor, made)
        if specs:
            self.flavors.set_flavor_extra_spec(made, **specs)
        return made

    def rt_flavor(
        self, reservation: str | None = None, vcpus: int = 1, **specs: str
    ) -> str:
        """Make a real-time flavor; return its ID.

        :param reservation: default: that of the configuration
        """
        reservation = reservation or CONF.nova_rt.reservation
        return self.flavor(self.rt_specs(reservation, **specs), vcpus)

    # Servers

    def boot(
        self,
        reservation: str | None = None,
        vcpus: int = 1,
        *,
        hint: str | None = None,
        network: bool = False,
        wait: bool = True,
        specs: dict[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Make a real-time server, of a flavor of its own.

        :param reservation: default: that of the configuration
        :param specs: ``policy``, ``priority`` and the like
        :param wait: until it is ACTIVE
        :param options: more for the request
        """
        flavor = self.rt_flavor(reservation, vcpus, **(specs or {}))
        return self.boot_flavor(
            flavor, hint=hint, network=network, wait=wait, **options
        )

    def plain(
        self, vcpus: int = 1, *, network: bool = False, wait: bool = True
    ) -> dict[str, Any]:
        """Make a server without a reservation."""
        return self.boot_flavor(
            self.flavor({}, vcpus), network=network, wait=wait
        )

    def boot_flavor(
        self,
        flavor: str,
        *,
        hint: str | None = None,
        network: bool = False,
        wait: bool = True,
        clients: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Make a server, to be deleted at the end of the test.

        :param flavor: ID of a flavor
        :param clients: the clients of its user; default: the primary user
        """
        clients = clients or self.os_primary
        if hint is not None:
            options['scheduler_hints'] = {'rt_reservation': hint}
        if network:
            options |= self._network(clients)
        made = clients.servers_client.create_server(
            name=data_utils.rand_name(
                self.id().rpartition('.')[2][:40],
                prefix=CONF.resource_name_prefix,
            ),
            imageRef=CONF.compute.image_ref,
            flavorRef=flavor,
            **{'networks': 'none'} | options,
        )['server']
        self.addCleanup(self.delete, made['id'])
        if not wait:
            return self.show(made['id'])
        return self.reach(made['id'], 'ACTIVE')

    def show(self, server: str) -> dict[str, Any]:
        """Return a server as the administrator sees it."""
        return self.admin_servers.show_server(server)['server']

    def reach(self, server: str, *statuses: str) -> dict[str, Any]:
        """Wait until a server has one of these statuses and no task.

        :raises AssertionError: with its fault, if it gets into ERROR instead
        """
        deadline = time.monotonic() + CONF.compute.build_timeout
        while True:
            found = self.show(server)
            idle = not found['OS-EXT-STS:task_state']
            if found['status'] in statuses and idle:
                return found
            if (
                found['status'] == 'ERROR' and idle
            ) or time.monotonic() > deadline:
                self.fail(
                    f'wanted {" or ".join(statuses)}, is {found["status"]}, '
                    f'task {found["OS-EXT-STS:task_state"]}, fault: '
                    f'{found.get("fault", {}).get("message")}'
                )
            time.sleep(_POLL_S)

    def act(
        self, server: str, action: str, status: str, value: Any = None
    ) -> dict[str, Any]:
        """Act on a server as the user, and wait for its status.

        :param action: as the API calls it, ``os-stop`` say
        :param value: for the API
        """
        self.servers.action(server, action, body={action: value})
        return self.reach(server, status)

    def refused(
        self,
        reservation: str | None = None,
        vcpus: int = 1,
        flavor: str | None = None,
        **options: Any,
    ) -> str:
        """Ask for a server that no host takes; return its fault.

        It is known by its name, and nothing else of it is there.
        """
        flavor = flavor or self.rt_flavor(reservation, vcpus)
        made = self.boot_flavor(flavor, wait=False, **options)
        found = self.reach(made['id'], 'ERROR')
        self.assert_nothing_left(made['id'])
        return found['fault']['message']

    def delete(self, server: str) -> None:
        """Delete a server, if it is there still; nothing of it is left."""
        host = running = None
        with contextlib.suppress(lib_exc.NotFound):
            host = self.show(server)['OS-EXT-SRV-ATTR:host']
            if host and CONF.nova_rt.host_access != 'none':
                running = container.find(transport.compute_host(host), server)
            self.admin_servers.delete_server(server)
        self.wait_for(
            lambda: self._is_gone(server),
            f'server {server} is not deleted',
            CONF.compute.build_timeout,
        )
        self.assert_nothing_left(server, host)
        if running is not None:
            self.wait_for(running.gone, f'groups left: {running.groups}')

    def _is_gone(self, server: str) -> bool:
        try:
            found = self.show(server)
        except lib_exc.NotFound:
            return True
        if found['status'] == 'ERROR' and not found['OS-EXT-STS:task_state']:
            # Deleting a server that is in ERROR may have to be asked twice.
            with contextlib.suppress(lib_exc.NotFound):
                self.admin_servers.delete_server(server)
        return False

    def network_id(self) -> str:
        """Return the network of servers; skip the test if there is none."""
        network = self.get_tenant_network()
        if not network:
            self.skipTest('[compute] fixed_network_name is not set')
        found: str = network['id']
        return found

    def _network(self, clients: Any) -> dict[str, Any]:
        """Return the fields that request a port which the tests can reach."""
        network = self.network_id()
        groups = clients.security_groups_client
        group = groups.create_security_group(
            name=data_utils.rand_name('rt', prefix=CONF.resource_name_prefix)
        )['security_group']
        self.addCleanup(groups.delete_security_group, group['id'])
        for protocol in ('icmp', 'tcp', 'udp'):
            clients.security_group_rules_client.create_security_group_rule(
                security_group_id=group['id'],
                direction='ingress',
                ethertype='IPv4',
                protocol=protocol,
            )
        return {
            'networks': [{'uuid': network}],
            'security_groups': [{'name': group['name']}],
        }

    # Hosts

    def host(self, server: str) -> transport.Host:
        """Return the host of a server."""
        name = self.show(server)['OS-EXT-SRV-ATTR:host']
        self.assertIsNotNone(name, f'{server} is on no host')
        return transport.compute_host(name)

    def hosts(self) -> list[transport.Host]:
        """Return all hosts that offer bandwidth."""
        return [transport.compute_host(name) for name in self.rt_hosts()]

    def container(self, server: str) -> container.Container:
        """Return the running container of a server."""
        found = container.find(self.host(server), server)
        self.assertIsNotNone(found, f'no container of {server} runs')
        return found

    # What a server holds

    def allocations(self, server: str) -> dict[str, int]:
        """Return the allocations of a server, of all its classes."""
        found = self.placement.list_allocations(server)['allocations']
        total: dict[str, int] = {}
        for each in found.values():
            for name, amount in each['resources'].items():
                total[name] = total.get(name, 0) + amount
        return total

    def assert_agree(
        self,
        server: str,
        reservation: str | None = None,
        cpus: int = 1,
        policy: tuple[str, int] = ('rr', 1),
    ) -> list[int]:
        """Kernel, policy, Placement, database and exporter tell the same.

        Sources without access in the configuration are not asked.

        :param reservation: default: that of the configuration
        :returns: the CPUs of the server; none without access to its host
        """
        reservation = reservation or CONF.nova_rt.reservation
        self.assertEqual(
            cpus * ppm(reservation), self.allocations(server).get(BANDWIDTH)
        )
        if CONF.nova_rt.host_access == 'none':
            return []
        found = self.container(server)
        self.assertEqual(reservation, str(found.held()))
        own = found.cpus()
        self.assertEqual(cpus, len(own), own)
        self.assertEqual({policy}, found.policies())
        self.assert_reported(server, reservation, own)
        return own

    def assert_reported(
        self, server: str, reservation: str, cpus: list[int]
    ) -> None:
        """nova-rt-manage and exporter know a running server's reservation."""
        if CONF.nova_rt.manage_command:
            self.wait_until_equal(
                (reservation, cpus, 'held'),
                lambda: self.recorded(server),
                'what nova-rt-manage shows',
            )
        if CONF.nova_rt.exporter_url:
            host = self.host(server)
            share = ppm(reservation) / 10**6
            self.wait_until_equal(
                (1, dict.fromkeys(cpus, share), 0),
                lambda: self.exported(host, server),
                'what the exporter tells',
            )

    def recorded(self, server: str) -> tuple[str, list[int], str] | None:
        """Return what nova-rt-manage shows: (Q/P, CPUs, state)."""
        row = reports.manage('server', 'show', server)
        if row is None:
            return None
        cpus = container.cpu_list(row['CPUs'])
        return row['Reservation'], cpus, row['State']

    def exported(
        self, host: transport.Host, server: str
    ) -> tuple[float | None, dict[int, float], float | None]:
        """Return (runs, CPU -> share, drifted) of the exporter."""
        found = reports.of_server(host, server)
        return (
            found.get('nova_rt_server_running'),
            found.get('nova_rt_server_cpu_reserved_ratio', {}),
            found.get('nova_rt_server_drifted'),
        )

    # What a server leaves

    def look(self, server: str, host: str | None = None) -> Left:
        """Return all things of one server.

        :param host: where it was; default: look at all hosts
        """
        ports = self.os_admin.ports_client.list_ports(device_id=server)
        left = Left(
            allocations=tuple(sorted(self.allocations(server).items())),
            ports=tuple(sorted(port['id'] for port in ports['ports'])),
        )
        if CONF.nova_rt.host_access == 'none':
            return left
        found = self.hosts() if host is None else [
            transport.compute_host(host)
        ]  # fmt: skip
        return dataclasses.replace(
            left,
            domain=any(container.defined(each, server) for each in found),
            reported=any(self._is_reported(each, server) for each in found),
        )

    def assert_nothing_left(
        self, server: str, host: str | None = None
    ) -> None:
        """Nothing is left of a server but, perhaps, its name.

        Services and the kernel free things a moment after the server is
        gone.
        """
        self.wait_until_equal(
            Left(), lambda: self.look(server, host), f'left of {server}'
        )

    @staticmethod
    def _is_reported(host: transport.Host, server: str) -> bool:
        if not CONF.nova_rt.exporter_url:
            return False
        return bool(reports.of_server(host, server))

    # Waiting

    def wait_for(
        self, condition: Any, message: str, seconds: float | None = None
    ) -> None:
        """Wait until something is so."""
        deadline = self._deadline(seconds)
        while not condition():
            if time.monotonic() > deadline:
                self.fail(message)
            time.sleep(_POLL_S)

    def wait_until_equal(
        self,
        expected: Any,
        look: Any,
        message: str,
        seconds: float | None = None,
    ) -> None:
        """Wait until a look at something finds the expected."""
        deadline = self._deadline(seconds)
        while (found := look()) != expected:
            if time.monotonic() > deadline:
                self.assertEqual(expected, found, message)
            time.sleep(_POLL_S)

    def _deadline(self, seconds: float | None) -> float:
        settle_s = self.settle_s or CONF.nova_rt.settle_timeout
        return time.monotonic() + (seconds or settle_s)

    # The APIs

    @contextlib.contextmanager
    def microversion(self, version: str) -> Iterator[None]:
        """Speak another version of the compute API for a while."""
        before = base_compute_client.COMPUTE_MICROVERSION
        base_compute_client.COMPUTE_MICROVERSION = version
        try:
            yield
        finally:
            base_compute_client.COMPUTE_MICROVERSION = before

    def assert_refused_with(
        self, text: str, call: Any, *args: Any, **kwargs: Any
    ) -> str:
        """The API answers with a 400 that has this text; return all of it."""
        error = self.assertRaises(lib_exc.BadRequest, call, *args, **kwargs)
        message = self.message(error)
        self.assertIn(text, message)
        self.assertNotIn('Traceback', message)
        return message

    @staticmethod
    def message(error: lib_exc.RestClientException) -> str:
        """Return the message of an error of an API."""
        body = error.resp_body
        if isinstance(body, str):
            with contextlib.suppress(ValueError):
                body = json.loads(body)
        if isinstance(body, dict):
            # Some have it below the name of the error, some have not.
            body = body.get('message') or next(iter(body.values()))
        if isinstance(body, dict):
            body = body.get('message')
        return str(body)
