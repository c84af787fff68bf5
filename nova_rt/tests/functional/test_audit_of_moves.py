# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage audit of servers that wait for a confirmation."""

import fixtures
from nova.tests.functional.libvirt import base as nova_base

from nova_rt import conf as nova_rt_conf
from nova_rt.tests.fixtures import manage
from nova_rt.tests.functional import moves
from nova_rt.virt.libvirt import servers


class AuditOfMovesTest(moves.MovesTestBase):
    def setUp(self):
        super().setUp()
        for name, value in (
            # The database fixture has configured it.
            ('nova.db.api.api.context_manager.configure', lambda **_: None),
            ('nova_rt.cmd.manage.audit.reading._SETTLE_S', 0),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        nova_rt_conf.register_opts(nova_base.CONF)
        self.flags(host='nowhere')
        self.server = self.create(self.rt_flavor('400/1000'))
        self.source = self.host_of(self.server)
        self.target = self.other(self.source)

    def audit_command(self, *words):
        return manage.run(nova_base.CONF, 'audit', '-f', 'json', *words)

    def assert_clean(self):
        result = self.audit_command()
        self.assertEqual((0, []), (result.code, result.data), result.err)

    def assert_found(self, host, source, text):
        result = self.audit_command()
        self.assertEqual(1, result.code, result.err)
        (found,) = result.data
        self.assertEqual(
            (host, self.server['id'], source),
            (found['Host'], found['Server'], found['Source']),
        )
        self.assertIn(text, found['Difference'])

    def test_each_kind(self):
        """Before, during and after."""
        for flavor in (
            self.rt_flavor('600/1000'), self.plain_flavor(),
            self.rt_flavor('300/1000'), None,
        ):  # fmt: skip
            for how in ('revert', 'confirm'):
                self.move(self.server, flavor)
                self.assert_clean()
                self.end(self.server, how)
                self.assert_clean()

    def test_same_host(self):
        self.stay(self.source)
        for how in ('revert', 'confirm'):
            self.resize(self.server, self.rt_flavor('600/1000'))
            self.assert_clean()
            self.end(self.server, how)
            self.assert_clean()

    def test_allocation_of_the_migration(self):
        self.migrate(self.server)
        reports = self.computes[self.source].manager.reportclient
        reports.delete_allocation_for_instance(
            self.ctxt, self.migration(self.server).uuid, 'migration',
            force=True,
        )  # fmt: skip
        self.assert_found(self.source, 'placement', 'holds 0 ppm for its migr')

    def test_allocation_of_the_server(self):
        self.migrate(self.server)
        reports = self.computes[self.source].manager.reportclient
        reports.delete_allocation_for_instance(
            self.ctxt, self.server['id'], force=True
        )
        self.assert_found(self.target, 'placement', 'holds 0 ppm')

    def test_record_at_the_source(self):
        self.migrate(self.server)
        instance = self.instance(self.server)
        instance.system_metadata[servers.OLD] = 'v=9'
        instance.save()
        self.assert_found(self.source, 'record', 'v=9')

    def test_claim_at_the_source_is_not_held(self):
        """Published as free, while the source may need it again."""
        self.migrate(self.server)
        tracker = self.computes[self.source].manager.rt
        self.reservations(self.source).release(self.server['id'])
        tracker._update(self.ctxt, tracker.compute_nodes[self.source])
        result = self.audit_command()
        (found,) = result.data
        self.assertEqual(
            (self.source, 'tracker'), (found['Host'], found['Source'])
        )
