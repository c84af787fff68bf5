# SPDX-License-Identifier: Apache-2.0
"""nova-rt-manage audit, on a cloud in this process that is damaged by hand."""

import json
import uuid

import fixtures
from keystoneauth1 import exceptions
from nova import objects
from nova.tests.functional.libvirt import base as nova_base

from nova_rt.manage.audit import repairs
from nova_rt.reservation import extra_specs, record
from nova_rt.tests.fixtures import manage
from nova_rt.tests.functional import base

RC = extra_specs.RESOURCE_CLASS


class AuditTestBase(base.RTServersTestBase):
    """A host whose sources say the same until they are damaged."""

    ADMIN_API = True
    RESERVATION = '600/1000'

    def setUp(self):
        super().setUp()
        self.prepare_commands()
        self.start_compute()
        # Only what a test wants of this host is local.
        self.flags(host='nowhere')
        self.server = self.create(self.rt_flavor(self.RESERVATION))

    def audit(self, *words):
        return manage.run(nova_base.CONF, 'audit', '-f', 'json', *words)

    def assert_clean(self):
        result = self.audit()
        self.assertEqual((0, []), (result.code, result.data), result.err)
        self.assertEqual(1, result.err.count('\n'), result.err)
        return result.err

    def assert_found(self, source, server=None, *texts):
        """One finding; --dry-run changes nothing.

        :returns: the finding
        """
        result = self.audit()
        self.assertEqual(1, result.code, result.err)
        (found,) = result.data
        self.assertEqual(source, found['Source'], found)
        self.assertEqual('compute1', found['Host'])
        self.assertEqual(server or '', found['Server'])
        for text in texts:
            self.assertIn(text, found['Difference'] + found['Remedy'])
        dry = self.audit('--dry-run')
        self.assertEqual(1, dry.code)
        (again,) = dry.data
        would = again.pop('Repair')
        self.assertEqual('', found.pop('Repair'))
        self.assertEqual(found, again)
        return {**found, 'Repair': would}

    def assert_mends(self):
        """--repair mends it, all of it."""
        result = self.audit('--repair')
        self.assertEqual((0, ['mended']), (result.code, [
            found['Repair'] for found in result.data
        ]), result.err)  # fmt: skip
        self.assert_clean()

    def assert_leaves_alone(self):
        """--repair does nothing about it."""
        result = self.audit('--repair')
        self.assertEqual(1, result.code)
        self.assertEqual([''], [found['Repair'] for found in result.data])

    @property
    def provider(self):
        return self.compute_rp_uuids['compute1']

    def read_allocations(self, consumer):
        """Read allocations, in the form in which they are written."""
        found = self.placement.get(
            f'/allocations/{consumer}', version='1.28'
        ).body
        return {
            'allocations': {
                provider: {'resources': each['resources']}
                for provider, each in found['allocations'].items()
            },
            'project_id': found.get('project_id', self.api.project_id),
            'user_id': found.get('user_id', 'someone'),
            'consumer_generation': found.get('consumer_generation'),
        }

    def write_allocations(self, consumer, payload):
        answer = self.placement.put(
            f'/allocations/{consumer}', payload, version='1.28'
        )
        self.assertEqual(204, answer.status, answer.body)

    def allocate(self, consumer, resources):
        """Change what a consumer holds on the host, as by hand."""
        held = {self.provider: {'resources': resources}} if resources else {}
        payload = self.read_allocations(consumer)
        self.write_allocations(consumer, payload | {'allocations': held})

    def resources(self, consumer):
        found = self.placement.get(f'/allocations/{consumer}').body
        return {
            provider: each['resources']
            for provider, each in found['allocations'].items()
        }

    def allocate_bandwidth(self, ppm, server=None):
        """Change that of a server alone, by default that of all tests.

        :returns: all that it held before
        """
        uuid = (server or self.server)['id']
        held = self.resources(uuid)[self.provider]
        self.allocate(uuid, {**held, RC: ppm})
        return held

    def change_record(self, text):
        instance = self.instance(self.server)
        instance.system_metadata[record.KEY] = text
        instance.save()


class CleanTest(AuditTestBase):
    def test_nothing_differs(self):
        self.assertEqual(
            'Compared 1 server(s) on 1 host(s)\n', self.assert_clean()
        )
        self.assertEqual('', self.audit('-q').err)
        # A server asks for what its hint says.
        self.create(self.rt_flavor('600/1000'), '300/1000')
        self.create(self.rt_flavor('100/1000', vcpus=2, policy='fifo'))
        self.create(self.rt_flavor('990/1000', vcpus=9), state='ERROR')
        self.create(self.plain_flavor())
        self._stop_server(self.server)
        self.assert_clean()
        self._start_server(self.server)
        self.assert_clean()
        self._delete_server(self.server)
        self.assert_clean()

    def test_host(self):
        result = self.audit('--host', 'compute1')
        self.assertEqual((0, []), (result.code, result.data))
        result = self.audit('--host', 'nobody\x1b[2J')
        self.assertEqual((2, ''), (result.code, result.out))
        self.assertEqual(1, result.err.count('\n'))
        self.assertNotIn('\x1b', result.err)

    def test_sources_that_are_away(self):
        gone = exceptions.ConnectFailure('no route')
        with fixtures.MockPatch(
            'nova.scheduler.client.report.SchedulerReportClient.get',
            side_effect=gone,
        ):
            result = self.audit()
        self.assertEqual((2, []), (result.code, result.data))
        self.assertIn('Cannot audit compute1: Placement', result.err)
        # Not a word about the servers: nothing is known.
        self.assertNotIn(self.server['id'], result.err)
        self.flags(connection=None, group='api_database')
        result = self.audit()
        self.assertEqual((2, ''), (result.code, result.out))
        self.assertIn('[api_database] connection', result.err)


class PlacementTest(AuditTestBase):
    def test_wrong(self):
        uuid = self.server['id']
        before = self.resources(uuid)
        held = before[self.provider]
        others = {name: held[name] for name in held if name != RC}
        for damaged, ppm in (
            (held | {RC: 7}, 7),
            (held | {RC: 900_000}, 900_000),
            (others, 0),
            # All of it comes back, also what is not ours.
            ({}, 0),
        ):
            with self.case(damaged):
                self.allocate(uuid, damaged)
                found = self.assert_found(
                    'placement', uuid, f'holds {ppm} ppm', '600000'
                )
                self.assertEqual(
                    f'would set the allocation from {ppm} to 600000 ppm',
                    found['Repair'],
                )
                self.assertEqual(ppm, self.allocated(self.server))
                self.assert_mends()
                self.assertEqual(before, self.resources(uuid))
        self._delete_server(self.server)
        self.assert_nothing_left(of=[self.server])
        # Nova still has its mapping.
        self.allocate(uuid, held)
        self.assert_found('placement', uuid, 'gone')
        self.assert_mends()

    def test_leaked(self):
        gone = str(uuid.uuid4())
        self.allocate(gone, {RC: 100_000, 'MEMORY_MB': 64})
        found = self.assert_found('placement', gone, 'gone', '100000')
        self.assertEqual(
            'would remove the allocation of 100000 ppm', found['Repair']
        )
        self.assertNotEqual({}, self.resources(gone))
        self.assert_mends()
        self.assertEqual({}, self.resources(gone))
        self.assertEqual(600_000, self.allocated(self.server))

    def fill(self, holder, **held):
        """Hold all the rest for somebody else."""
        total = sum(self.capacity().values())
        self.allocate(holder, {**held, RC: total - self.used()})

    def test_no_room(self):
        """An allocation that Placement refuses is left, and reported."""
        other = self.create(self.rt_flavor('100/1000'))
        self.allocate_bandwidth(1, other)
        plain = self.create(self.plain_flavor())
        has = self.resources(plain['id'])[self.provider]
        self.fill(plain['id'], **has)
        result = self.audit('--repair', '--host', 'compute1')
        self.assertEqual(1, result.code)
        by_server = {each['Server']: each['Repair'] for each in result.data}
        self.assertIn('Placement refuses', by_server[other['id']])
        self.allocate(plain['id'], has)
        self.assert_mends()

    def test_what_is_removed_makes_room(self):
        other = self.create(self.rt_flavor('100/1000'))
        self.allocate_bandwidth(1, other)
        self.fill(str(uuid.uuid4()))
        result = self.audit('--repair')
        self.assertEqual(
            (0, ['mended'] * 2),
            (result.code, [each['Repair'] for each in result.data]),
        )
        self.assert_clean()

    def test_busy_server_is_left_out(self):
        self.allocate_bandwidth(7)
        instance = self.instance(self.server)
        instance.task_state = 'rebooting'
        instance.save()
        self.assert_clean()

    def repair_after(self, act):
        """Repair what differs, and act before it is repaired."""
        original = repairs.mend

        def mend(auditor, repair):
            act()
            original(auditor, repair)

        with fixtures.MonkeyPatch('nova_rt.manage.audit.repairs.mend', mend):
            result = self.audit('--repair')
        self.assertEqual(1, result.code)
        self.assertIn('meanwhile', result.data[0]['Repair'])

    def test_changes_while_it_is_mended(self):
        """Nothing is overwritten that was not found."""
        self.allocate_bandwidth(7)
        self.repair_after(lambda: self.allocate_bandwidth(8))
        self.assertEqual(8, self.allocated(self.server))

    def test_server_that_comes_back_while_it_is_mended(self):
        """An allocation is not removed on the word of an old reading."""
        gone = str(uuid.uuid4())
        self.allocate(gone, {RC: 100_000})
        mapping = objects.InstanceMapping(
            self.ctxt, instance_uuid=gone, project_id='p',
            queued_for_delete=False,
        )  # fmt: skip
        self.repair_after(mapping.create)
        self.assertNotEqual({}, self.resources(gone))
        # From now on it is a server that is being created.
        self.assert_clean()

    def test_plain_server(self):
        plain = self.create(self.plain_flavor())
        self.allocate_bandwidth(1000, plain)
        self.assert_found('placement', plain['id'], 'not real-time')
        self.assert_leaves_alone()

    def test_server_of_another_host(self):
        self.start_compute('compute2')
        self.flags(host='nowhere')
        other = self.compute_rp_uuids['compute2']
        payload = self.read_allocations(self.server['id'])
        payload['allocations'][other] = {'resources': {RC: 5}}
        self.write_allocations(self.server['id'], payload)
        (finding,) = self.audit().data
        self.assertEqual('compute2', finding['Host'])
        self.assertIn('another host', finding['Difference'])
        self.audit('--repair')
        self.assertEqual([], self.audit().data)
        self.assertEqual(600_000, self.allocated(self.server))


class RecordTest(AuditTestBase):
    def test_broken(self):
        self.change_record('v=9;\x1b[2J')
        found = self.assert_found('record', self.server['id'], 'v=9')
        self.assertNotIn('\x1b', found['Difference'])
        self.assert_leaves_alone()
        # The flavor says what is to be allocated.
        self.allocate_bandwidth(7)
        result = self.audit('--repair')
        self.assertEqual(1, result.code)
        self.assertEqual(
            {'record': '', 'placement': 'mended'},
            {each['Source']: each['Repair'] for each in result.data},
        )
        self.assertEqual(600_000, self.allocated(self.server))

    def test_not_what_the_flavor_asks(self):
        """Then nobody knows what the allocation should be."""
        text = self.record_of(self.server).encode()
        self.change_record(text.replace('q=600', 'q=300'))
        result = self.audit('--repair')
        self.assertEqual(1, result.code)
        sources = {each['Source']: each for each in result.data}
        self.assertEqual({'record', 'placement', 'tracker'}, set(sources))
        self.assertIn('600/1000', sources['record']['Difference'])
        self.assertEqual({''}, {each['Repair'] for each in result.data})
        self.assertEqual(600_000, self.allocated(self.server))


class TrackerTest(AuditTestBase):
    def change_stats(self, **stats):
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            self.ctxt, 'compute1'
        )
        node.stats = {
            key: text
            for key, text in {**node.stats, **stats}.items()
            if text is not None
        }
        node.save()

    def test_over_promises(self):
        cpus = ','.join(map(str, self.capacity()))
        top = max(self.capacity().values())
        self.change_stats(rt_free=f'{{"{cpus}":{top}}}')
        total = sum(self.capacity().values())
        self.assert_found('tracker', None, str(total), str(total - 600_000))
        self.assert_leaves_alone()
        # As the finding says.
        self._run_periodics()
        self.assert_clean()

    def test_wrong(self):
        for text, says in (
            ('{"0-3":1}', 'something else holds the rest'),
            (None, 'nova-rt-compute'),
            ('{"0":"\x1b[2J"}', 'cannot be read'),
            ('[', 'cannot be read'),
            ('{"a":1}', 'cannot be read'),
            ('7', 'cannot be read'),
        ):
            with self.case(text):
                self.change_stats(rt_free=text)
                found = self.assert_found('tracker', None, says)
                self.assertNotIn('\x1b', found['Difference'])

    def test_cpu_is_not_offered(self):
        (cpu,) = self.record_of(self.server).cpus
        free = {k: ppm for k, ppm in self.published().items() if k != cpu}

        self.change_stats(
            rt_free=json.dumps({str(k): ppm for k, ppm in free.items()})
        )
        result = self.audit()
        self.assertIn(
            f'on CPUs {cpu}, which the host does not offer',
            result.data[0]['Difference'],
        )
