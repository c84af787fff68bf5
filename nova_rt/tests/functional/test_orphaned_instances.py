# SPDX-License-Identifier: Apache-2.0
"""A server is deleted in the middle of a move that nobody ends."""

import datetime
import os

import fixtures
from nova.tests.functional.libvirt import base as nova_base
from nova.virt.libvirt import driver as nova_driver
from oslo_utils import timeutils, uuidutils

from nova_rt.tests.functional import moves

CONF = nova_base.CONF


class RemnantsTest(moves.MovesTestBase):
    def setUp(self):
        super().setUp()
        self.flags(instance_delete_interval=300)

    def leave(self, flavor):
        """Delete a server whose move has left a domain and a directory.

        :returns: the server; where the domain is
        """
        server = self.create(flavor)
        source = self.host_of(server)
        self.migrate(server)
        self.assertIn(server['id'], self.domains(source))
        self.die(source)
        with fixtures.MockPatch(
            'nova.compute.api.API._confirm_resize_on_deleting'
        ):
            self._delete_server(server)
        self.restart_compute_service(source)
        self.force_down(source, False)
        os.mkdir(self.directory(server))
        self.assertIn(server['id'], self.domains(source))
        return server, source

    @staticmethod
    def directory(server, suffix='_resize'):
        return os.path.join(CONF.instances_path, server['id'] + suffix)

    def look(self, host, after_s=301):
        """Nova's interval has passed."""
        now = timeutils.utcnow() + datetime.timedelta(seconds=after_s)
        self.useFixture(
            fixtures.MockPatchObject(
                timeutils,
                'utcnow',
                lambda with_timezone=False: now.replace(
                    tzinfo=datetime.UTC if with_timezone else None
                ),
            )
        )
        self.computes[host].manager._remove_remnants(self.ctxt)

    def test_removed(self):
        """Not at once: whatever was under way gets time."""
        server, source = self.leave(self.rt_flavor('1400/2000'))
        manager = self.computes[source].manager
        self.audit_host(source)
        # Should Nova do it one day, this here is of no use any more.
        manager._cleanup_incomplete_migrations(self.ctxt)
        manager._run_pending_deletes(self.ctxt)
        self.look(source, after_s=200)
        self.assertIn(server['id'], self.domains(source))
        self.assertTrue(os.path.exists(self.directory(server)))
        self.look(source, after_s=101)
        self.assertNotIn(server['id'], self.domains(source))
        self.assertFalse(os.path.exists(self.directory(server)))
        self.assert_nothing_left(source, [server])

    def test_plain_server(self):
        """Nova's own matter."""
        server, source = self.leave(self.plain_flavor())
        self.look(source)
        self.assertIn(server['id'], self.domains(source))

    def test_servers_that_live(self):
        """Stopped, or in the middle of a move."""
        stopped = self.create(self.rt_flavor('300/2000'))
        host = self.host_of(stopped)
        self._stop_server(stopped)
        moving = self.create(self.rt_flavor('200/2000'), host=host)
        self.migrate(moving)
        before = self.domains(host)
        self.assertLessEqual({stopped['id'], moving['id']}, before)
        self.look(host)
        self.assertEqual(before, self.domains(host))
        self.assertTrue(self.disk(self.instance(stopped)).exists())

    def test_nobody_knows_whose(self):
        for name in (uuidutils.generate_uuid(), '_base', 'locks', 'other'):
            os.makedirs(os.path.join(CONF.instances_path, name), exist_ok=True)
        before = os.listdir(CONF.instances_path)
        self.look('compute1')
        self.assertEqual(before, os.listdir(CONF.instances_path))

    def test_one_that_cannot_be_removed(self):
        """The others are, and the next round tries again."""
        flavor = self.rt_flavor('300/2000')
        servers = [self.leave(flavor) for _ in range(2)]
        destroy = nova_driver.LibvirtDriver._destroy

        def fail(driver, instance):
            if instance.uuid == servers[0][0]['id']:
                raise OSError('busy')
            destroy(driver, instance)

        with fixtures.MockPatchObject(
            nova_driver.LibvirtDriver, '_destroy', fail
        ):
            for host in moves.HOSTS:
                self.look(host)
        left = [self.domains(host) for host in moves.HOSTS]
        self.assertEqual({servers[0][0]['id']}, set.union(*left))
        for host in moves.HOSTS:
            self.look(host)
        self.assertEqual([set(), set()], list(map(self.domains, moves.HOSTS)))
