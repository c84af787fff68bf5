# SPDX-License-Identifier: Apache-2.0
"""Servers keep their reservation through failures and new bounds."""

import contextlib
import secrets
import uuid

from lab import paths, services
from lab.tests import base

#: Read by nova-scheduler in the order of its command line.
_CONF = paths.ETC / 'nova' / 'nova.conf'


class RebuildTest(base.LabTestCase):
    """A rebuild in place that fails takes nothing from the server."""

    def bad_image(self):
        """Make an image that cannot be mounted."""
        made = self.cloud.image.create_image(
            name=f'e2e-{uuid.uuid4().hex[:8]}',
            data=secrets.token_bytes(1 << 20),
            disk_format='raw', container_format='bare', wait=True,
        )  # fmt: skip
        self.addCleanup(self.cloud.image.delete_image, made.id)
        return made.id

    def rebuild(self, server, image, status):
        self.cloud.compute.rebuild_server(server, image)
        self.wait_for(
            lambda: (
                (found := self.cloud.compute.get_server(server.id)).status
                == status
                and not found.task_state
            ),
            f'it is not {status}',
        )

    def assert_kept(self, flavor):
        server = self.create(flavor)
        before = self.allocations(server)
        self.rebuild(server, self.bad_image(), 'ERROR')
        self.assertEqual(before, self.allocations(server))
        good = self.cloud.image.find_image(base.IMAGE, ignore_missing=False)
        self.rebuild(server, good.id, 'ACTIVE')
        self.assertEqual(before, self.allocations(server))
        return server

    def test_real_time(self):
        self.assert_agree(self.assert_kept('rt.small'), '20000/100000')

    def test_plain(self):
        self.assert_kept(base.PLAIN)


class BoundsTest(base.LabTestCase):
    """The operator allows less than when a server was created."""

    @contextlib.contextmanager
    def denying(self):
        before = _CONF.read_text()
        scheduler = services.table()['nova-scheduler']

        def restart():
            scheduler.stop()
            scheduler.ensure()
            # It serves; before that, a nova-compute that tells all
            # schedulers of a server finds no exchange for it.
            self.delete(self.create(base.PLAIN))

        _CONF.write_text(f'{before}\n[nova_rt]\nhints = deny\n')
        try:
            restart()
            yield
        finally:
            _CONF.write_text(before)
            restart()

    def test_hints_are_denied_later(self):
        server = self.create('rt.small', hint='10000/100000')
        self.cloud.compute.shelve_server(server)
        self.reach(server, 'SHELVED_OFFLOADED')
        with self.denying():
            self.cloud.compute.unshelve_server(server)
            self.reach(server, 'ACTIVE')
            self.assert_agree(server, '10000/100000')
            other = self.create('rt.small', hint='10000/100000', wait=False)
            self.wait_for(
                lambda: (
                    self.cloud.compute.get_server(other.id).status == 'ERROR'
                ),
                'a new one is not refused',
            )
