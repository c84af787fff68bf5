# SPDX-License-Identifier: Apache-2.0
"""Exports, repairs and events of a server that is being moved."""

from nova_rt import events
from nova_rt.exporter import domains, reading
from nova_rt.tests.functional import moves
from nova_rt.tests.functional.moves import NEW, OLD
from nova_rt.virt.libvirt import metadata


class UnderWayTest(moves.ServerToMoveTestBase):
    """A resize from 400/1000 to 600/1000."""

    def exported(self, host):
        """List the claims that nova-rt-exporter finds in a host's domains."""
        guests = self.computes[host].driver._host.list_guests(
            only_running=False
        )
        records = [(each, metadata.parse_record(each)) for each in guests]
        return reading.list_claims(
            domains.LibvirtServer(
                guest.uuid, found.record, None, beside=found.beside
            )
            for guest, found in records
            if found is not None
        )

    def assert_exported(self, server, ppm):
        """It counts as the service does, with both slots."""
        host = self.host_of(server)
        self._wait_for_assert(
            lambda: self.assertEqual(
                sorted(map(str, self.all_claims(host))),
                sorted(map(str, self.exported(host))),
            )
        )
        claims = self.exported(host)
        self.assertEqual(ppm, sum(claim.total_ppm for claim in claims))

    def test_exported_on_the_same_host(self):
        """Also of a server that is stopped, which no check looks at."""
        self.stay(self.source)
        seen = self.listen(self.source)
        self.assert_exported(self.server, OLD)
        server = self.resize(self.server, self.larger)
        self.assert_exported(server, OLD + NEW)
        self.computes[self.source].driver.running.verify_all()
        self.assert_exported(server, OLD + NEW)
        server = self.confirm(server)
        self.assert_exported(server, NEW)
        server = self._stop_server(server)
        server = self.resize(server, self.rt_flavor('400/1000'))
        self.assert_exported(server, OLD + NEW)
        with self.as_source(server):
            server = self.ask_for(server, 'confirmResize', state='SHUTOFF')
        self.assert_exported(server, OLD)
        self.assertEqual([], [
            event for event in seen if isinstance(event, events.Drifted)
        ])  # fmt: skip

    def test_between_two_hosts(self):
        """Exported, and repaired in VERIFY_RESIZE with the new one."""
        server = self.resize(self.server, self.larger)
        self.assert_exported(server, NEW)
        self.lose_reservation(server, self.target)
        self.verify(self.target)
        self.assert_runs(server, '600/1000')
        server = self.confirm(server)
        self.assert_exported(server, NEW)

    def test_history(self):
        """The events that each host tells of a move."""
        seen = {host: self.listen(host) for host in moves.HOSTS}

        def told(host):
            kinds = [event.kind for event in seen[host]]
            seen[host].clear()
            return kinds

        server = self.resize(self.server, self.larger)
        self.assertEqual(['claimed', 'applied'], told(self.target))
        self.audit()
        self.confirm(server)
        self.assertEqual(['released'], told(self.source))
        self.assertEqual([], told(self.target))
        self.stay(self.target)
        server = self.resize(server, self.rt_flavor('200/1000'))
        self.revert(server)
        self.assertEqual(
            ['added', 'applied', 'dropped', 'applied'], told(self.target)
        )
        self.assertEqual([], told(self.source))
