# SPDX-License-Identifier: Apache-2.0
"""Servers of a fake host, and what they reserve."""

import logging

import fixtures
from nova import objects
from oslotest import base

from nova_rt.host import host
from nova_rt.reservation import extra_specs, record
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.fixtures import kernel
from nova_rt.tracking import reservations

objects.register_all()

RECORD = record.Record(Request(Reservation(600_000, 1_000_000), 1), (2,))


class TestBase(base.BaseTestCase):
    """A host whose events are kept."""

    INTERFACE = 'v2-rt-max-cpu'

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.kernel = self.useFixture(kernel.make(self.INTERFACE))
        self.host = host.Host(
            cpu_set=None, smt=False, reserved_ppm=0, partition=None,
            files=self.kernel.files,
        )  # fmt: skip
        self.host.start()
        self.reservations = reservations.Reservations(self.host)
        self.events = []
        self.reservations.dispatcher.subscribe(self.events.append)
        self.servers = {}

    def server(self, uuid, rec=RECORD):
        """Make a server, with a record of its own.

        :param rec: a record, or a text
        """
        text = rec.encode() if isinstance(rec, record.Record) else rec
        self.servers[uuid] = objects.Instance(
            uuid=uuid,
            flavor=objects.Flavor(
                extra_specs={extra_specs.RESERVATION: '600000/1000000'}
            ),
            system_metadata={record.KEY: text},
        )
        self.reservations.adopt(self.servers.values())
