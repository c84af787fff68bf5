# SPDX-License-Identifier: Apache-2.0
"""Rights to see and change the reservation of a running server."""

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc
import testtools

from nova_rt_tempest_plugin import api
from nova_rt_tempest_plugin.tests import base

CONF = config.CONF


class ReservationsTest(base.RTTest):
    """A server of a member, with bounds in its flavor."""

    # The primary user may be in the project of the member.
    credentials = [
        'primary', 'alt', 'admin', 'project_member', 'project_reader',
    ]  # fmt: skip

    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.nova_rt.api:
            raise cls.skipException('[nova_rt] api is not set')

    @classmethod
    def setup_clients(cls):
        super().setup_clients()
        cls.member = api.ReservationsClient(cls.os_project_member)
        cls.reader = api.ReservationsClient(cls.os_project_reader)
        cls.stranger = api.ReservationsClient(cls.os_alt)
        cls.admin = api.ReservationsClient(cls.os_admin)

    def setUp(self):
        super().setUp()
        self.least = CONF.nova_rt.small_reservation
        self.most = CONF.nova_rt.reservation
        bounds = {
            'runtime_min': self.least.partition('/')[0],
            'runtime_max': self.most.partition('/')[0],
        }
        self.server = self.boot_member(self.rt_flavor(self.least, **bounds))

    def boot_member(self, flavor):
        made = self.boot_flavor(flavor, clients=self.os_project_member)
        return made['id']

    def assert_error(self, error, status, code, call, *args, **kwargs):
        """The call fails; the body is in the format of the API SIG."""
        found = self.assertRaises(error, call, *args, **kwargs)
        # Tempest's client leaves out the only key of a body.
        (each,) = found.resp_body
        self.assertEqual((status, f'rt.{code}'),
                         (each['status'], each['code']))  # fmt: skip
        return each['detail']

    def apply(self, client, reservation, **options):
        """Change the reservation, and wait until all agree on it."""
        client.set(self.server, reservation, **options)
        self.wait_until_equal(
            'Applied',
            lambda: client.show(self.server)[1]['condition']['type'],
            'condition',
        )
        found = client.show(self.server)[1]
        for name in ('desired', 'allocated', 'actual'):
            self.assertEqual(
                reservation,
                '{runtime_us}/{period_us}'.format(**found[name]),
                name,
            )
        self.reach(self.server, 'ACTIVE')
        self.assert_agree(self.server, reservation)

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a101')
    def test_change(self):
        """A member grows and shrinks its server, between the bounds."""
        self.apply(self.member, self.most)
        self.apply(self.member, self.least)
        events = self.member.read(
            f'servers/{self.server}/reservation/history'
        )['events']
        self.assertIn('applied', [each['event'] for each in events])

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a102')
    def test_seen_by(self):
        """Hosts and CPUs are for operators, other projects see nothing."""
        _, found = self.reader.show(self.server)
        self.assertEqual(
            (self.server, None, None, 'held'),
            (found['server_id'], found['host'], found['cpus'],
             found['state']),
        )  # fmt: skip
        _, found = self.admin.show(self.server)
        host = self.show(self.server)['OS-EXT-SRV-ATTR:host']
        self.assertEqual(host, found['host'])
        self.assertIsNotNone(found['cpus'])
        self.assert_error(
            lib_exc.NotFound, 404, 'not_found', self.stranger.show, self.server
        )
        for client, path, seen in (
            (self.reader, 'reservations', True),
            (self.stranger, 'reservations', False),
            (self.admin, 'reservations?all_projects=true', True),
        ):
            listed = [
                each['server_id'] for each in client.read(path)['reservations']
            ]
            self.assertEqual(seen, self.server in listed, path)
        self.assert_error(
            lib_exc.Forbidden, 403, 'forbidden', self.member.read, 'hosts'
        )
        shown = self.admin.read(f'hosts/{host}')['host']
        self.assertIn(
            self.server,
            [uuid for cpu in shown['cpus'] for uuid in cpu['servers']],
        )

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a103')
    def test_refused(self):
        """A refused change changes nothing."""
        more = base.times(self.most, 1.1)
        for client, reservation, error, status, code in (
            (self.reader, self.most, lib_exc.Forbidden, 403, 'forbidden'),
            (self.stranger, self.most, lib_exc.NotFound, 404, 'not_found'),
            (self.member, more, lib_exc.Forbidden, 403, 'out_of_bounds'),
            (self.admin, '9/8', lib_exc.BadRequest, 400, 'invalid_request'),
        ):
            self.assert_error(
                error, status, code, client.set, self.server, reservation
            )
        # Members may not migrate servers.
        self.assert_error(
            lib_exc.Forbidden, 403, 'forbidden', self.member.set,
            self.server, self.most, on_no_room='migrate',
        )  # fmt: skip
        _, found = self.member.show(self.server)
        self.assertEqual(0, found['generation'])
        self.assert_agree(self.server, self.least)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a104')
    def test_without_bounds(self):
        """Only operators change a server whose flavor has no bounds."""
        self.server = self.boot_member(self.rt_flavor(self.least))
        self.assert_error(
            lib_exc.Forbidden, 403, 'out_of_bounds', self.member.set,
            self.server, self.most,
        )  # fmt: skip
        self.apply(self.admin, self.most)

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a105')
    def test_two_writers(self):
        """Of two that have read one generation, the second is refused."""
        headers, _ = self.member.show(self.server)
        self.apply(self.member, self.most, etag=headers['etag'])
        self.assert_error(
            lib_exc.Conflict, 409, 'generation_conflict', self.member.set,
            self.server, self.least, etag=headers['etag'],
        )  # fmt: skip
        self.assert_agree(self.server, self.most)

    @decorators.attr(type=['negative'])
    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a106')
    @testtools.skipUnless(
        CONF.compute_feature_enabled.pause,
        '[compute-feature-enabled] pause is off',
    )
    def test_paused(self):
        self.act(self.server, 'pause', 'PAUSED')
        self.assert_error(
            lib_exc.Conflict, 409, 'server_busy', self.member.set,
            self.server, self.most,
        )  # fmt: skip
        self.act(self.server, 'unpause', 'ACTIVE')

    @decorators.idempotent_id('0c8f86a2-93e5-4d0f-9b42-6d0d32f6a107')
    def test_microversions(self):
        headers, _ = self.member.show(self.server)
        self.assertEqual('rt 1.0', headers['openstack-api-version'])
        self.assert_error(
            lib_exc.NotAcceptable, 406, 'microversion', self.member.show,
            self.server, version='9.9',
        )  # fmt: skip
