# SPDX-License-Identifier: Apache-2.0
"""Requests for changes of running reservations, and their outcome."""

import fixtures
from nova.tests.functional.libvirt import base as nova_base
from oslo_utils import uuidutils

from nova_rt import conf as nova_rt_conf
from nova_rt.cloud import buses
from nova_rt.formats.changes import Answer, Condition
from nova_rt.tests.fixtures import conductor, database
from nova_rt.tests.functional import moves
from nova_rt.tracking import servers


class ChangesMixin:
    """Put before a class of tests with hosts."""

    def ask_change(self, server, reservation, host=None, **others):
        """Ask a host for a change, as a conductor does.

        :param host: None for the server's
        :returns: its answer
        """
        instance = self.instance(server)
        arguments = {
            'server': server['id'],
            'generation': servers.read_generation(instance) + 1,
            'flavor': instance.flavor.id,
            'reservation': reservation,
        }
        endpoint = self.computes[host or instance.host].manager.rt_changes
        return Answer.read(
            endpoint.change_reservation(self.ctxt, **(arguments | others))
        )

    def change(self, server, reservation, condition=Condition.APPLIED):
        """Change a reservation; the host answers with a condition."""
        answer = self.ask_change(server, reservation)
        self.assertEqual(condition, answer.condition, answer)
        return answer

    def assert_ended(self, server, reservation, host):
        """All agree on this reservation, and nothing of a change is left."""
        instance = self.instance(server)
        self.assertIsNone(instance.task_state)
        self.assertNotIn(servers.CHANGE, instance.system_metadata)
        rec = self.assert_held(server, host)
        self.assertEqual(reservation, str(rec.request.reservation))
        self.assertIsNone(self.reservations(host).held.get(
            server['id']).changing)  # fmt: skip
        return rec


class ChangesTestBase(ChangesMixin, moves.MovesTestBase):
    """One server of 400/1000 on a host of four CPUs."""

    ADMIN_API = True

    def setUp(self):
        super().setUp()
        self.flavor = self.rt_flavor('400/1000')
        self.server = self.create(self.flavor)
        self.host = self.host_of(self.server)
        self.kernel = self.kernels[self.host]

    def fill(self, reservation, count):
        """Create other servers on the same host."""
        return [
            self.create(self.rt_flavor(reservation), host=self.host)
            for _ in range(count)
        ]

    def take_in_placement(self, but):
        """Let another consumer hold what no server has claimed.

        :param but: ppm that it leaves, to all servers of the host together
        """
        taken = sum(self.capacity(self.host).values()) - but
        done = self.placement.put(
            f'/allocations/{uuidutils.generate_uuid()}',
            {
                'allocations': {
                    self.compute_rp_uuids[self.host]: {
                        'resources': {'CUSTOM_RT_BANDWIDTH': taken}
                    }
                },
                'project_id': 'p',
                'user_id': 'u',
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
            },
            version='1.38',
        )
        self.assertEqual(204, done.status)

    def assert_changed(self, reservation, host=None):
        rec = self.assert_ended(self.server, reservation, host or self.host)
        self.assert_stable(self.server)
        return rec


class AskedTestBase(ChangesTestBase):
    """The same with a database of nova_rt, and a bus without a conductor.

    :ivar conf: of all services
    :ivar bus: starts conductors
    """

    conf = nova_base.CONF

    def setUp(self):
        # The hosts report their events.
        self.flags_of_ours(report=True)
        super().setUp()
        # The database fixture has configured it.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.db.api.api.context_manager.configure',
                lambda **options: None,
            )
        )

    def start_compute(self, *args, **kwargs):
        if not hasattr(self, 'bus'):
            made = self.useFixture(database.Database())
            nova_rt_conf.register_opts(self.conf)
            self.flags(connection=made.url, group='nova_rt_database')
            self.bus = self.useFixture(conductor.Bus(self.conf))
            self.bus.find_bus = buses.Buses().find
        return super().start_compute(*args, **kwargs)
