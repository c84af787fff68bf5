# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cloud.instances."""

from unittest import mock

from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states, vm_states
from nova.objects import fields
from oslotest import base

from nova_rt.cloud import instances
from nova_rt.cloud.snapshot import Holder
from nova_rt.reservation.record import Record
from nova_rt.tests.fixtures import specs
from nova_rt.tracking import servers


def server(vm_state=vm_states.ACTIVE, task_state=None, last=1):
    """A server whose last move has this number."""
    context = mock.Mock(migration_id=last)
    return mock.Mock(
        vm_state=vm_state, task_state=task_state, migration_context=context
    )


def move(of, **values):
    found = mock.Mock(
        spec_set=('id', 'instance', 'status', 'migration_type',
                  'source_compute', 'dest_compute'),
        id=1, instance=of, status='post-migrating',
        migration_type=fields.MigrationType.RESIZE,
        source_compute='a', dest_compute='b',
    )  # fmt: skip
    for name, value in values.items():
        setattr(found, name, value)
    return found


class LostTest(base.BaseTestCase):
    def test_each_state(self):
        for lost, instance in (
            (True, server()),
            (True, server(vm_states.STOPPED)),
            (True, server(vm_states.ERROR)),
            (False, server(vm_states.BUILDING)),
            (False, server(task_state=task_states.RESIZE_MIGRATED)),
            (False, server(vm_states.RESIZED)),
            (True, server(vm_states.RESIZED, last=2)),
        ):
            self.assertIs(lost, instances.is_lost(move(instance)))

    def test_server_is_gone(self):
        class Gone(mock.Mock):
            @property
            def instance(self):
                raise nova_exception.InstanceNotFound(instance_id='x')

        self.assertIs(True, instances.is_lost(Gone()))

    def classify(self, host, *migrations):
        return instances.classify_absent(host, migrations)

    def test_to_whom(self):
        lost = move(server())
        self.assertIs(Holder.LOST, self.classify('b', lost))
        self.assertIs(Holder.ELSEWHERE, self.classify('c', lost))
        for values in (
            {'status': 'confirmed'},
            {'status': 'error'},
            {'instance': server(task_state=task_states.RESIZE_PREP)},
        ):
            self.assertIs(
                Holder.ELSEWHERE, self.classify('b', move(server(), **values))
            )
        unclaimed = move(server(), dest_compute=None, status='pre-migrating')
        self.assertIs(Holder.LOST, self.classify('b', unclaimed))

    def test_dead_host(self):
        """A server evacuated from there still runs there, for all we know."""
        for status, holder in (
            ('done', Holder.EVACUATED),
            # Its service has started since.
            ('completed', Holder.LOST),
        ):
            evacuated = move(
                server(), migration_type=fields.MigrationType.EVACUATION,
                source_compute='b', dest_compute='a', status=status,
            )  # fmt: skip
            self.assertIs(
                holder, self.classify('b', move(server()), evacuated)
            )


class AskedTest(base.BaseTestCase):
    def test_runtime_of_the_record(self):
        """It is asked for after a change, and where the host moves it."""
        bounds = {'rt:runtime_min': '300', 'rt:runtime_max': '800'}
        for of_flavor, changed, asked in (
            ({}, '', '400/1000'),
            ({}, '3 7', '600/1000'),
            ({}, '3 0', '400/1000'),
            (bounds, '', '400/1000'),
            (bounds | {'rt:adapt': 'throttled'}, '', '600/1000'),
        ):
            flavor = {'rt:reservation': '400/1000'} | of_flavor
            instance = objects.Instance(
                flavor=objects.Flavor(
                    id=7, flavorid='f', vcpus=1, memory_mb=64, root_gb=1,
                    ephemeral_gb=0, swap=0, extra_specs=flavor,
                ),
                system_metadata={servers.CHANGED: changed},
                host='one', vm_state=vm_states.ACTIVE, task_state=None,
            )  # fmt: skip
            rec = Record(specs.parse(flavor, 1), (3,)).with_runtime(600)
            servers.write_record(instance, rec)
            found = instances.make_server(instance, {}, moving=False)
            self.assertEqual(asked, str(found.asked.reservation))
