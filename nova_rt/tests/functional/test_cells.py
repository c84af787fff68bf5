# SPDX-License-Identifier: Apache-2.0
"""Two cells with a host each: real-time servers stay in theirs."""

from nova import context as nova_context
from nova import objects
from nova.policies import base as base_policies
from nova.policies import servers as policies

from nova_rt import events
from nova_rt.tests.functional import moves

CELLS = {'compute1': 'cell1', 'compute2': 'cell2'}
HERE, THERE = CELLS


class CellsTestBase(moves.MovesTestBase):
    """An administrator may move servers across cells."""

    NUMBER_OF_CELLS = 2

    def setUp(self):
        super().setUp()
        self.policy.set_rules(
            {policies.CROSS_CELL_RESIZE: base_policies.RULE_ADMIN_API},
            overwrite=False,
        )
        self.flavor = self.rt_flavor('400/1000')
        self.larger = self.rt_flavor('600/1000')

    def start_compute(self, hostname='compute1', *args, **kwargs):
        return super().start_compute(
            hostname, *args, cell_name=CELLS[hostname], **kwargs
        )

    def _picture(self, server):
        """Return what must not change: server, Placement, claims, cells."""
        instance = self.instance(server)
        in_cells = {}
        for name, cell in self.cell_mappings.items():
            with nova_context.target_cell(self.ctxt, cell) as ctxt:
                found = objects.InstanceList.get_by_filters(ctxt, {})
            in_cells[name] = {each.uuid for each in found}
        allocations = self.placement.get(f'/allocations/{server["id"]}').body[
            'allocations'
        ]
        return (
            (instance.host, instance.vm_state, instance.flavor.flavorid),
            dict(instance.system_metadata),
            {rp: held['resources'] for rp, held in allocations.items()},
            self.ppm(server),
            {host: self.domains(host) for host in CELLS},
            in_cells,
        )


class CellsTest(CellsTestBase):
    """Both hosts are ours."""

    def _assert_refused(self, server, flavor=None):
        """It goes nowhere, and is as it was; with words for its user."""
        before = self._picture(server)
        body = {'migrate': {'host': THERE}}
        if flavor:
            body = {'resize': {'flavorRef': flavor}}
        ((action, arguments),) = body.items()
        self.ask_in_vain(server, action, arguments, 'conductor_migrate_server')
        self.wait_idle(server)
        self.assertEqual(before, self._picture(server))
        self.assertTrue(self.guest(server, HERE).is_active())
        self.assertIn('No valid host', self.reason(server))
        self.assertEqual('error', self.migration(server).status)

    def test_migration_to_a_host_of_another_cell(self):
        server = self.create(self.flavor, host=HERE)
        self._assert_refused(server)
        self.assertIn('another cell', self.reason(server))
        self.assert_held(server, HERE)
        # The host refuses it too, whatever a scheduler has chosen.
        self.stub_out('nova_rt.scheduler.cells.stay', lambda *args: None)
        seen = self.listen(THERE)
        self.ask_in_vain(
            server, 'migrate', {'host': THERE}, 'conductor_migrate_server'
        )
        (refusal,) = seen
        self.assertEqual(
            (server['id'], events.Action.MOVE), (refusal.uuid, refusal.action)
        )
        self.assertEqual({HERE: (400_000, 0), THERE: (0, 0)},
                         self.ppm(server))  # fmt: skip
        self.assert_held(server, HERE)

    def test_resize_that_only_another_cell_has_room_for(self):
        """To, from and between real-time flavors."""
        for old, new in (
            (self.flavor, self.larger),
            (self.flavor, self.plain_flavor()),
            (self.plain_flavor(), self.flavor),
        ):
            server = self.create(old, host=HERE)
            self._assert_refused(server, new)
            self._delete_server(server)

    def test_resize_within_the_cell(self):
        """Room in the server's own cell is used, and the other cell is not."""
        self.flags(allow_resize_to_same_host=True)
        server = self.create(self.flavor, host=HERE)
        self.resize(server, self.larger)
        self.assertEqual({HERE: (600_000, 400_000), THERE: (0, 0)},
                         self.ppm(server))  # fmt: skip
        self.confirm(server)
        self.assertEqual(600_000, self.assert_held(server, HERE).ppm)

    def test_servers_of_ordinary_flavors(self):
        """Nova chooses the other cell, and asks its host."""
        server = self.create(self.plain_flavor(), host=HERE)
        asked = []
        self.stub_out(
            'nova.conductor.tasks.cross_cell_migrate.CrossCellMigrationTask.'
            'execute',
            lambda task: asked.append(task.host_selection.service_host),
        )
        for body in (
            {'migrate': {'host': THERE}},
            {'resize': {'flavorRef': self.plain_flavor()}},
        ):
            self.api.post_server_action(server['id'], body)
            self._wait_for_assert(lambda: self.assertEqual([THERE], asked))
            asked.clear()
            instance = self.instance(server)
            instance.task_state = None
            instance.save()


class StockCellTest(CellsTestBase):
    """The host of the other cell runs the stock nova-compute."""

    def start_compute(self, hostname='compute1', *args, **kwargs):
        if hostname == THERE:
            return self.start_stock_compute(
                hostname, *args, cell_name=CELLS[hostname], **kwargs
            )
        return super().start_compute(hostname, *args, **kwargs)

    def test_the_source_refuses_it(self):
        """Whatever a scheduler has chosen; it is not even powered off."""
        self.stub_out('nova_rt.scheduler.cells.stay', lambda *args: None)
        server = self.create(self.flavor, host=HERE)
        seen = self.listen(HERE)
        self.ask_in_vain(
            server, 'resize', {'flavorRef': self.plain_flavor()},
            'conductor_migrate_server',
        )  # fmt: skip
        (refusal,) = seen
        self.assertEqual(
            (server['id'], events.Action.MOVE), (refusal.uuid, refusal.action)
        )
        self.assert_held(server, HERE)
        self.assertEqual(
            1, self.containers.started.count(self.instance(server).name)
        )
