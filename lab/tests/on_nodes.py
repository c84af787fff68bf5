# SPDX-License-Identifier: Apache-2.0
"""Basis of the tests on nodes: servers with a guarantee, in milliseconds."""

import unittest

from lab import node, world
from lab.node import group
from lab.tests import base

LARGE, MEDIUM, TWO = 'rt.ms.large', 'rt.ms.medium', 'rt.ms.two'
#: A node without KVM is slow.
ACTIVE_S = 600
#: A boot with the servers that ran before.
BOOT_S = 1200
#: nova-rt-compute compares once a minute.
PATIENCE_S = 300
LOG = '/var/log/nova/nova-compute.log'


@unittest.skipUnless(node.nodes(), 'a lab with a node only')
class NodesTestCase(base.LabTestCase):
    """A test on a lab with nodes."""

    active_s = ACTIVE_S
    # A move copies every byte: 1 GiB takes minutes where no KVM is.
    disk_gb = 0

    def only_on(self, *nodes):
        """Let new servers go to no other host until the end of the test."""
        for host in set(world.hosts()) - {own.host for own in nodes}:
            self.enable(host, False)
            self.addCleanup(self.enable, host, True)

    def create_on(self, own, flavor, **more):
        server = self.create(flavor, **more)
        self.assertEqual(own.host, self.host_of(server))
        return server

    def node_of(self, server):
        """Return the node that a server is on."""
        return node.find(self.host_of(server))

    def group(self, server):
        return group.Group.of(self.node_of(server), server.id)

    def assert_held(self, server, reservation):
        """Record, Placement, tracker and kernel hold the same."""
        rec = self.record(server)
        self.assertEqual(reservation, str(rec.request.reservation))
        found = self.group(server)
        self.assertEqual(reservation, str(found.held()))
        self.assertEqual(list(rec.cpus), found.cpus())
        # Where systemd has the machines of libvirt.
        self.assertTrue(found.path.startswith('/machine.slice/'), found.path)
        self.assertEqual(
            rec.total_ppm, self.allocations(server)[base.RESOURCE_CLASS]
        )
        runtime_us, period_us = map(int, reservation.split('/'))
        self.assertEqual(
            '\n'.join(
                f'{cpu} runtime_ns={runtime_us}000 period_ns={period_us}000'
                for cpu in rec.cpus
            ),
            found.read('cpu.rt.effective'),
        )
        return rec

    def runs(self, server):
        """Return whether Nova and libvirt say that a server runs."""
        found = self.cloud.compute.get_server(server.id)
        if found.status != 'ACTIVE' or found.task_state:
            return False
        listed = self.node_of(server).run('virsh -q -c lxc:/// list --uuid')
        return server.id in listed

    def wait_until_it_runs(self, server):
        self.wait_for(
            lambda: self.runs(server), 'a server does not come back', BOOT_S
        )

    def state(self, own):
        """Return what Nova says of a node's nova-compute."""
        (found,) = self.cloud.compute.services(
            binary='nova-compute', host=own.host
        )
        return found.state

    def wait_for_state(self, own, state):
        self.wait_for(
            lambda: self.state(own) == state,
            f'Nova does not say that {own.host} is {state}',
            PATIENCE_S,
        )
