# SPDX-License-Identifier: Apache-2.0
"""A host for the tests of what is reported."""

import dataclasses

from nova_rt import admission, events
from nova_rt.extra_specs import Enforcement
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
        self.seam = events.Seam()

    def capacity(self):
        cpus = {3: 950_000, 4: 950_000}
        return admission.Capacity(cpus, self.host_ppm)

    def list_records(self):
        return dict(self.records)

    def list_running(self):
        return set(self.running)

    def read_usage(self, uuid):
        usage = self.usages[uuid]
        if isinstance(usage, Exception):
            raise usage
        return usage

    # What happens on the host

    def claim(self, uuid=UUID, rec=RECORD):
        self.records[uuid] = rec
        self.seam.emit(events.Claimed(uuid, rec))

    def run(self, uuid=UUID):
        self.running.add(uuid)
        self.usages[uuid] = None
        self.seam.emit(events.Applied(uuid, self.records[uuid]))

    def release(self, uuid=UUID):
        self.running.discard(uuid)
        self.seam.emit(events.Released(uuid, self.records.pop(uuid)))
