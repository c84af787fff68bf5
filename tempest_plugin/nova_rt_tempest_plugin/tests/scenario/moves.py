# SPDX-License-Identifier: Apache-2.0
"""Checks of the reservations before, during and after a move."""

from typing import Any, NamedTuple

from tempest import config

from nova_rt_tempest_plugin import reports
from nova_rt_tempest_plugin.hosts import container, transport
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF

#: On the root disk, which goes where the server goes.
_MARK = '/nova-rt-mark'


class Place(NamedTuple):
    """Location of a server.

    :ivar host: its name in Nova
    :ivar node: its name in Placement
    """

    host: str
    node: str


class MoveTest(base.RTTest):
    """A test that moves servers.

    Nova chooses the host unless the operation needs another one. So a resize
    may stay on its host, which then holds the old and the new reservation.
    Two reservations of the configuration are enough for each test.
    """

    def setUp(self) -> None:
        """Give the reservations short names."""
        super().setUp()
        self.small: str = CONF.nova_rt.small_reservation
        self.large: str = CONF.nova_rt.reservation
        self.looks = CONF.nova_rt.host_access != 'none'

    # Moving

    def check_move(
        self,
        server: str,
        ask: Any,
        old: str | None,
        new: str | None,
        *,
        revert: bool = False,
    ) -> tuple[Place, Place]:
        """Move a running server, and look at each step.

        :param ask: called to ask for the move
        :param old: reservation before it, None for a plain server
        :param new: reservation after it, None for a plain server
        :returns: where it was, and where it was moved to
        """
        source = self.place(server)
        before = self.assert_runs(server, old)
        self.leave_mark(server)

        ask()
        self.reach(server, 'VERIFY_RESIZE')
        target = self.place(server)
        migration = self.migration(server)
        self.assert_allocated(migration, source, old)
        self.assert_allocated(server, target, new)
        during = self.assert_runs(server, new)
        self.assert_mark(server)
        if source != target:
            self.assert_runs_not(server, source)

        if revert:
            self.servers.revert_resize_server(server)
            place, reservation, cpus = source, old, before
        else:
            self.servers.confirm_resize_server(server)
            place, reservation, cpus = target, new, during
        self.reach(server, 'ACTIVE')
        self.assertEqual(place, self.place(server))
        self.assert_allocated(migration, source, None)
        self.assert_allocated(server, place, reservation)
        self.assertEqual(cpus, self.assert_runs(server, reservation))
        self.assert_mark(server)
        if source != target:
            self.assert_runs_not(server, target if revert else source)
        return source, target

    def place(self, server: str) -> Place:
        """Return where a server is."""
        found = self.show(server)
        return Place(
            found['OS-EXT-SRV-ATTR:host'],
            found['OS-EXT-SRV-ATTR:hypervisor_hostname'],
        )

    def migration(self, server: str) -> str:
        """Return the UUID of a server's last move.

        It is the consumer that has the old allocations in Placement until the
        move is confirmed or reverted.
        """
        found = self.os_admin.migrations_client.list_migrations(
            instance_uuid=server
        )['migrations']
        self.assertTrue(found, f'no migration of {server}')
        return str(max(found, key=lambda each: each['id'])['uuid'])

    def end(self, server: str) -> None:
        """Delete a server; nothing of it is left on any host."""
        self.delete(server)
        self.assert_nothing_left(server)

    # What is held

    def assert_allocated(
        self, consumer: str, place: Place, reservation: str | None
    ) -> None:
        """Placement has a reservation of one CPU on a host, and no other.

        :param consumer: UUID of a server or a migration
        :param reservation: None for nothing on any host
        """
        self.assert_allocated_on(consumer, [place], reservation)

    def assert_allocated_on(
        self, consumer: str, places: list[Place], reservation: str | None
    ) -> None:
        """Placement has a reservation of one CPU on each of these hosts."""
        wanted = {}
        if reservation is not None:
            amount = base.ppm(reservation)
            wanted = {place.node: amount for place in places}
        self.wait_until_equal(
            wanted, lambda: self.held(consumer), f'allocated for {consumer}'
        )

    def held(self, consumer: str) -> dict[str, int]:
        """Return the bandwidth that a consumer has: node -> ppm."""
        names = {uuid: name for name, uuid in self.rt_providers().items()}
        found = self.placement.list_allocations(consumer)['allocations']
        return {
            names.get(provider, provider): each['resources'][base.BANDWIDTH]
            for provider, each in found.items()
            if base.BANDWIDTH in each['resources']
        }

    def assert_runs(self, server: str, reservation: str | None) -> list[int]:
        """A server runs with a reservation, on CPUs that its host offers.

        :param reservation: None for a plain server
        :returns: its CPUs; none of a plain server and without access to hosts
        """
        if reservation is None:
            self.assertNotIn(base.BANDWIDTH, self.allocations(server))
            if self.looks:
                policies = self.container(server).policies()
                names = {name for name, _ in policies}
                self.assertFalse(names & {'fifo', 'rr'}, policies)
            return []
        cpus = self.assert_agree(server, reservation)
        if cpus and CONF.nova_rt.exporter_url:
            offered = reports.of_cpus(
                self.host(server), 'nova_rt_host_cpu_free_ratio'
            )
            self.assertLessEqual(set(cpus), set(offered))
        return cpus

    def assert_runs_not(self, server: str, place: Place) -> None:
        """No container of a server runs on a host."""
        if self.looks:
            host = transport.compute_host(place.host)
            self.assertIsNone(container.find(host, server))

    # Its disk

    def leave_mark(self, server: str) -> None:
        """Write to a running server's root disk."""
        if self.looks:
            self.container(server).run(f'echo {server} >{_MARK}')

    def assert_mark(self, server: str) -> None:
        """The root disk of a running server has the mark."""
        if self.looks:
            found = self.container(server).run(f'cat {_MARK}')
            self.assertEqual(server, found.strip())
