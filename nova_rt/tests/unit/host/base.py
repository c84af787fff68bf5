# SPDX-License-Identifier: Apache-2.0
"""A host on a fake machine."""

import fixtures
from oslotest import base

from nova_rt import exception
from nova_rt.host import cgroup, host
from nova_rt.reservation.extra_specs import TaskPolicy
from nova_rt.reservation.record import Record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import kernel

#: The libvirt_lxc process of a container.
PID = 7


def make_record(text='600/1000', cpus=(1,), policy=TaskPolicy.RR, priority=5):
    request = Request(
        Reservation.parse(text), len(cpus), policy=policy, priority=priority
    )
    return Record(request, cpus)


class HostTestCase(base.BaseTestCase):
    """On a kernel with files like the real ones.

    :cvar PATIENCE_S: seconds that a write waits for bandwidth
    """

    INTERFACE = 'v1-throttle'
    PATIENCE_S = 0.0

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(cgroup, 'PATIENCE_S', self.PATIENCE_S)
        )
        self.log = self.useFixture(fixtures.FakeLogger())
        self.boot()

    def boot(self, interface=None, **kwargs):
        """Move the host to another machine."""
        self.kernel = self.useFixture(
            kernel.make(interface or self.INTERFACE, **kwargs)
        )
        self.host = self.make_host()

    def make_host(self, **kwargs):
        options = {
            'cpu_set': None, 'smt': False, 'reserved_ppm': 0,
            'partition': None, 'files': self.kernel.files, **kwargs,
        }  # fmt: skip
        return host.Host(**options)

    def not_applied(self, rec, pid=PID):
        """The error of a reservation that is not applied."""
        return self.assertRaises(
            exception.ReservationNotApplied, self.host.apply, pid, rec
        )
