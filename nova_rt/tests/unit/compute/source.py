# SPDX-License-Identifier: Apache-2.0
"""A host for the tests of what is reported."""

import dataclasses

from nova_rt import events
from nova_rt.compute.meter import Meter
from nova_rt.compute.meter_file import Clock, MeterFile, meter_path
from nova_rt.compute.spool import Spool, spool_path
from nova_rt.host.interface import Counted
from nova_rt.reservation import admission
from nova_rt.reservation.extra_specs import Enforcement
from nova_rt.tests.fixtures.reports import RECORD, UUID


@dataclasses.dataclass
class Capability:
    name: str = 'v2-rt-max-cpu'
    enforcement: Enforcement = Enforcement.GUARANTEE
    scope: admission.Scope = admission.Scope.CPU


class Source:
    """A host with CPUs 3 and 4, and what its servers hold."""

    def __init__(self):
        self.adopted = True
        self.capability = Capability()
        self.records = {}
        self.running = set()
        self.usages = {}
        self.host_ppm = None
        self.container = 1
        self.dispatcher = events.Dispatcher()
        self.held = self

    def capacity(self):
        cpus = {3: 950_000, 4: 950_000}
        return admission.Capacity(cpus, self.host_ppm)

    def list_records(self):
        return dict(self.records)

    def list_claims(self):
        return list(self.records.values())

    def claims(self):
        return {uuid: (rec,) for uuid, rec in self.records.items()}

    def list_running(self):
        return set(self.running)

    def read_usage(self, uuid):
        usage = self.usages[uuid]
        if isinstance(usage, Exception):
            raise usage
        return usage

    def read_counted(self, uuid):
        usage = self.read_usage(uuid)
        return usage and Counted(self.container, usage)

    # What happens on the host

    def claim(self, uuid=UUID, rec=RECORD):
        self.records[uuid] = rec
        self.dispatcher.emit(events.Claimed(uuid, rec))

    def run(self, uuid=UUID):
        self.running.add(uuid)
        self.usages[uuid] = None
        self.dispatcher.emit(events.Applied(uuid, self.records[uuid]))

    def release(self, uuid=UUID):
        self.running.discard(uuid)
        self.dispatcher.emit(events.Released(uuid, self.records.pop(uuid)))


def make_meter(source, top, clock=None):
    """Make the meter of a host.

    :param top: directory of its file
    """
    file = MeterFile(meter_path(top, 'one'))
    return Meter(source, source, file, clock or Clock())


def make_spool(top):
    """Make the spool of a host.

    :param top: directory of its file
    """
    return Spool(spool_path(top, 'one'))
