# SPDX-License-Identifier: Apache-2.0
"""The plug-in's scenarios of moves against a cloud of this test's own.

It does what Nova should, or what a broken one does: then they must fail.
"""

import collections
import unittest
from unittest import mock

from nova_rt_tempest_plugin import probe
from nova_rt_tempest_plugin.tests import base
from nova_rt_tempest_plugin.tests.scenario import moves, test_moves

SMALL, LARGE = '10000/100000', '20000/100000'
HOSTS = ('one', 'two')
SERVER, MIGRATION = 'server', 'migration'


class Cloud:
    """One server on two hosts, and what Placement holds.

    :ivar faults: what is done wrongly
    """

    def __init__(self, reservation, faults=()):
        self.faults = set(faults)
        self.host = self.source = 'one'
        self.status = 'ACTIVE'
        self.flavor = self.old = reservation
        self.allocations = collections.defaultdict(dict)
        self._allocate(SERVER, 'one', reservation)

    def _allocate(self, consumer, host, reservation):
        self.allocations[consumer] = {}
        if reservation:
            resources = {base.BANDWIDTH: base.ppm(reservation), 'VCPU': 1}
        else:
            resources = {'VCPU': 1}
        self.allocations[consumer][f'provider of {host}'] = {
            'resources': resources
        }

    def _drop(self, consumer):
        self.allocations.pop(consumer, None)

    # What tests call: the names of Tempest's clients.

    def show_server(self, server):
        return {
            'server': {
                'id': server,
                'status': self.status,
                'OS-EXT-STS:task_state': None,
                'OS-EXT-SRV-ATTR:host': self.host,
                'OS-EXT-SRV-ATTR:hypervisor_hostname': f'node {self.host}',
            }
        }

    def list_resource_providers(self, required):
        return {
            'resource_providers': [
                {'name': f'node {host}', 'uuid': f'provider of {host}'}
                for host in HOSTS
            ]
        }

    def list_allocations(self, consumer):
        return {'allocations': self.allocations.get(consumer, {})}

    def list_migrations(self, instance_uuid):
        return {
            'migrations': [
                {'id': 7, 'uuid': MIGRATION},
                {'id': 3, 'uuid': 'an older one'},
            ]
        }

    def move(self, new, host='two'):
        """Resize or migrate it."""
        self.source, self.host = self.host, host
        self.old, self.flavor = self.flavor, new
        self._allocate(MIGRATION, self.source, self.old)
        if 'frees the old slot early' in self.faults:
            self._drop(MIGRATION)
        if 'takes the old amount' in self.faults:
            new = self.old
        self._allocate(SERVER, self.host, new)
        self.status = 'VERIFY_RESIZE'

    def confirm_resize_server(self, server):
        self.status = 'ACTIVE'
        if 'keeps the old slot' not in self.faults:
            self._drop(MIGRATION)

    def revert_resize_server(self, server):
        self.status = 'ACTIVE'
        self._drop(MIGRATION)
        if 'stays where it is' in self.faults:
            return
        if 'keeps the new amount' not in self.faults:
            self.flavor = self.old
        self._allocate(SERVER, self.source, self.flavor)
        self.host = self.source


class MoveTest(unittest.TestCase):
    """Moves of a server, looked at without access to hosts."""

    def setUp(self):
        conf = mock.Mock()
        conf.nova_rt.host_access = 'none'
        conf.nova_rt.reservation = LARGE
        conf.nova_rt.small_reservation = SMALL
        conf.nova_rt.settle_timeout = 0.01
        conf.compute.build_timeout = 1
        for module in (base, moves):
            self.enterContext(mock.patch.object(module, 'CONF', conf))

    def check(self, old, new, *, host='two', revert=False, faults=()):
        """Run a scenario's check of a move."""
        cloud = Cloud(old, faults)
        clients = dict.fromkeys(
            ('servers', 'admin_servers', 'providers', 'placement'), cloud
        )
        clients['os_admin'] = mock.Mock(migrations_client=cloud)
        scenarios = type('Scenarios', (test_moves.ResizeTest,), clients)
        case = scenarios('test_up_and_confirm')
        case.looks = False
        return case.check_move(
            SERVER, lambda: cloud.move(new, host), old, new, revert=revert
        )

    def assert_found(self, words, *args, **kwargs):
        """Check that what is wrong fails the scenario."""
        with self.assertRaisesRegex(AssertionError, words):
            self.check(*args, **kwargs)

    def test_what_nova_should_do(self):
        for old, new in (
            (SMALL, LARGE),
            (LARGE, SMALL),
            (SMALL, None),
            (None, SMALL),
            (SMALL, SMALL),
        ):
            for host in HOSTS:
                for revert in (False, True):
                    with self.subTest(old=old, new=new, host=host):
                        source, target = self.check(
                            old, new, host=host, revert=revert
                        )
                        self.assertEqual(('one', 'node one'), source)
                        self.assertEqual((host, f'node {host}'), target)

    def test_slots(self):
        for fault, revert in (
            ('frees the old slot early', False),
            ('takes the old amount', False),
            ('keeps the old slot', False),
            ('keeps the new amount', True),
        ):
            for host in HOSTS:
                with self.subTest(fault, host=host):
                    self.assert_found(
                        'allocated for (server|migration)',
                        SMALL, LARGE, host=host, revert=revert,
                        faults=[fault],
                    )  # fmt: skip

    def test_place(self):
        """Of a plain server, whose bandwidth says nothing."""
        self.assert_found(
            'two', None, None, revert=True, faults=['stays where it is']
        )

    def test_plain_server_with_bandwidth(self):
        self.assert_found(
            'allocated for server', SMALL, None,
            faults=['takes the old amount'],
        )  # fmt: skip


class ReachTest(unittest.TestCase):
    """The address at which a server's service answers."""

    def test_first_of_version_4(self):
        server = {
            'id': 'x',
            'addresses': {
                'pub': [
                    {'addr': '2001:db8::1', 'version': 6},
                    {'addr': '192.0.2.7', 'version': 4},
                ]
            },
        }
        with mock.patch.object(probe, 'wait') as wait:
            self.assertEqual('192.0.2.7', probe.reach(server, 5))
        wait.assert_called_once_with('192.0.2.7', 5)

    def test_none(self):
        with self.assertRaisesRegex(probe.ProbeError, 'no IPv4 address'):
            probe.reach({'id': 'x', 'addresses': {}}, 5)
