# SPDX-License-Identifier: Apache-2.0
"""What real-time servers cost nova-scheduler.

    python bench/scheduler.py [--hosts 1000,10000] [--output FILE]

Two measurements, on real objects of Nova, hosts of 64 CPUs:

* the cost per host of RTBandwidthFilter and RTBandwidthWeigher, beside
  NUMATopologyFilter and ComputeCapabilitiesFilter, each with a request that
  gives it work: 4 reserved CPUs, 4 pinned CPUs, two capabilities;
* whole ``select_destinations``, without this project and with it, for a
  plain and for a real-time server: databases in sqlite, Placement replaced
  by its answer (every host is a candidate; the text is parsed, its making is
  not counted, which leaves less to compare with).

What is compared is measured in turn, in the same process, many times; times
are CPU times of the process, medians. Needs Nova's and Placement's tests.
"""

import argparse
from collections.abc import Callable, Iterable
import functools
import gc
import json
import logging
import os
import pathlib
import platform
import random
import statistics
import sys
import time
from typing import Any
import unittest

# As nova-scheduler runs: with native threads. Importing this package sees to
# it, and has to come first.
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = 'true'
import nova.tests.functional  # noqa: F401  isort: skip

from nova import context as nova_context
from nova import objects as nova_objects
from nova import test, weights
from nova.db.main import api as db
from nova.db.main import models
from nova.objects import fields
from nova.scheduler import filters
from nova.scheduler import manager as nova_manager
from nova.scheduler import request_filter as nova_request_filter
from nova.scheduler.client import report
from nova.scheduler.filters import (
    compute_capabilities_filter,
    numa_topology_filter,
)
from oslo_utils import uuidutils

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from nova_rt.scheduler import host_free, manager, request_filter
from nova_rt.scheduler.filters import rt_bandwidth_filter
from nova_rt.scheduler.weights import rt_bandwidth
from nova_rt.tests.unit.scheduler import objects

CPUS = 64
VCPUS = 4
SPECS = {'rt:reservation': '400/1000'}

#: Marks what is measured as if no host had been looked at before.
CHANGED = 'all hosts changed'

#: Marks the scheduler that has this project's parts.
OURS = 'with nova_rt'

#: Runs of select_destinations: a plain and a real-time server.
WHOLE = (
    'plain',
    f'plain, {OURS}',
    'rt',
    f'rt, {OURS}',
    f'rt, {OURS}, {CHANGED}',
)

#: What the issue asks for: ours to NUMATopologyFilter; ours in the whole.
AIM_PER_HOST = 1 / 5
AIM_WHOLE = 0.05

Samples = dict[str, list[float]]


def numa_topology() -> nova_objects.NUMATopology:
    """Two sockets of 16 cores with two threads, a quarter of them pinned."""
    cells = []
    for socket in range(2):
        cpus = list(range(socket * 32, socket * 32 + 32))
        cells.append(
            nova_objects.NUMACell(
                id=socket,
                socket=socket,
                cpuset=set(cpus),
                pcpuset=set(cpus),
                memory=65536,
                cpu_usage=8,
                memory_usage=8192,
                pinned_cpus=set(cpus[:8]),
                siblings=[{cpu, cpu + 1} for cpu in cpus[::2]],
                mempages=[
                    nova_objects.NUMAPagesTopology(
                        size_kb=size, total=total, used=0
                    )
                    for size, total in ((4, 1 << 24), (2048, 0), (1 << 20, 0))
                ],
                network_metadata=nova_objects.NetworkMetadata(
                    physnets=set(), tunneled=False
                ),
            )
        )
    return nova_objects.NUMATopology(cells=cells)


def rt_stats(rand: random.Random) -> dict[str, str]:
    """What nova-rt-compute publishes for a host in use."""
    free = {cpu: rand.randrange(0, 950_001, 50_000) for cpu in range(CPUS)}
    return {
        'rt_free': json.dumps(free),
        'rt_interface': 'v2-hcbs-multi',
        'rt_enforcement': 'guarantee',
    }


def hosts(count: int) -> list[Any]:
    """HostStates as the scheduler makes them from the database."""
    rand = random.Random(1)  # noqa: S311
    numa = numa_topology()._to_json()
    return [
        objects.host_state(
            f'host{number}',
            rt_free=rt_stats(rand)['rt_free'],
            numa_topology=numa,
        )
        for number in range(count)
    ]


def pinned_spec() -> Any:
    """A request for pinned CPUs."""
    spec = objects.request_spec({'hw:cpu_policy': 'dedicated'}, VCPUS)
    spec.numa_topology = nova_objects.InstanceNUMATopology(
        cells=[
            nova_objects.InstanceNUMACell(
                id=0,
                cpuset=set(),
                pcpuset=set(range(VCPUS)),
                memory=64,
                cpu_policy=fields.CPUAllocationPolicy.DEDICATED,
            )
        ]
    )
    return spec


def time_in_turn(
    things: dict[str, Callable[[], object]],
    repeats: int,
    before: Callable[[str], None],
    after: Callable[[str], None] = lambda name: None,
) -> Samples:
    """CPU seconds of each thing, ``repeats`` times, one after the other."""
    samples: Samples = {name: [] for name in things}
    names = list(things)
    for repeat in range(repeats + 1):
        # Another one starts each time, so that none always follows the same.
        for name in (
            names[repeat % len(names) :] + names[: repeat % len(names)]
        ):
            before(name)
            gc.collect()
            gc.disable()
            start = time.process_time()
            things[name]()
            taken = time.process_time() - start
            gc.enable()
            if repeat:  # the first round warms up
                samples[name].append(taken)
                after(name)
    return samples


def bench_filters(count: int, repeats: int) -> dict[str, Any]:
    """Cost per host of filters and weigher."""
    states = hosts(count)
    weighed = [weights.WeighedObject(state, 0.0) for state in states]
    rt_spec = objects.request_spec(dict(SPECS), VCPUS)
    capabilities = objects.request_spec(
        {
            'capabilities:hypervisor_type': 'LXC',
            'capabilities:hypervisor_version': '>= 8000000',
        },
        VCPUS,
    )
    ours = rt_bandwidth_filter.RTBandwidthFilter()
    weigher = rt_bandwidth.RTBandwidthWeigher()
    numa = numa_topology_filter.NUMATopologyFilter()
    capable = compute_capabilities_filter.ComputeCapabilitiesFilter()
    passed: dict[str, int] = {}

    def run(name: str, filter_: filters.BaseHostFilter, spec: Any) -> None:
        passed[name] = sum(1 for _ in filter_.filter_all(states, spec))

    def fresh(name: str) -> None:
        # NUMATopologyFilter empties the candidates of a host that fails.
        for state in states:
            state.allocation_candidates = [{'mappings': {}}]
        if name.endswith(CHANGED):
            host_free._read.clear()

    plan = {
        'RTBandwidthFilter': (ours, rt_spec),
        f'RTBandwidthFilter, {CHANGED}': (ours, rt_spec),
        'RTBandwidthFilter, plain request': (ours, capabilities),
        'NUMATopologyFilter': (numa, pinned_spec()),
        'NUMATopologyFilter, request without NUMA': (numa, rt_spec),
        'ComputeCapabilitiesFilter': (capable, capabilities),
    }
    things: dict[str, Callable[[], object]] = {
        name: lambda name=name, args=args: run(name, *args)  # type: ignore
        for name, args in plan.items()
    }
    things['RTBandwidthWeigher'] = lambda: weigher.weigh_objects(
        weighed, rt_spec
    )
    samples = time_in_turn(things, repeats, fresh)
    per_host = {
        name: statistics.median(taken) / count * 1e6
        for name, taken in samples.items()
    }
    numa_us = per_host['NUMATopologyFilter']
    weigher_us = per_host['RTBandwidthWeigher']
    return {
        'hosts': count,
        'repeats': repeats,
        'us_per_host': per_host,
        'hosts_passed': passed,
        'ours_to_numa_topology_filter': {
            name: (per_host[name] + weigher_us) / numa_us
            for name in (
                'RTBandwidthFilter',
                f'RTBandwidthFilter, {CHANGED}',
            )
        },
        'samples_s': samples,
    }


class Placement:
    """Placement's answer for hosts that all have room, parsed each time."""

    def __init__(self, uuids: Iterable[str]) -> None:
        uuids = list(uuids)
        amounts = {
            'CUSTOM_RT_BANDWIDTH': VCPUS * 400_000,
            'VCPU': VCPUS,
            'MEMORY_MB': 64,
            'DISK_GB': 1,
        }
        self._text = json.dumps(
            {
                'allocation_requests': [
                    {
                        'allocations': {uuid: {'resources': amounts}},
                        'mappings': {'': [uuid]},
                    }
                    for uuid in uuids
                ],
                'provider_summaries': {
                    uuid: {
                        'resources': {
                            key: {'capacity': 10**9, 'used': 0}
                            for key in amounts
                        },
                        'traits': ['OWNER_NOVA', 'CUSTOM_RT_GUARANTEE'],
                        'parent_provider_uuid': None,
                        'root_provider_uuid': uuid,
                    }
                    for uuid in uuids
                },
            }
        )

    def get_allocation_candidates(self, _context: Any, _request: Any) -> Any:
        """As nova.scheduler.client.report's."""
        data = json.loads(self._text)
        return data['allocation_requests'], data['provider_summaries'], '1.36'

    def claim_resources(self, *_args: Any, **_kwargs: Any) -> bool:
        """As nova.scheduler.client.report's."""
        return True


class Ours:
    """Sums the CPU time spent inside this project's parts."""

    def __init__(self) -> None:
        self.taken = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time counted; for a generator, its items."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            result = function(*args, **kwargs)
            if not isinstance(result, list | bool):
                result = list(result)
            self.taken += time.process_time() - start
            return result

        return wrapper


class SelectDestinations(test.TestCase):
    """Runs the scheduler in the environment that Nova's tests make."""

    def __init__(self, count: int, repeats: int) -> None:
        super().__init__()
        self._count = count
        self._repeats = repeats
        # nova.test clears attributes that have no underscore.
        self._result: dict[str, Any] = {}

    def result(self) -> dict[str, Any]:
        """Run, and return the numbers."""
        outcome = unittest.TestResult()
        self.run(outcome)
        for _case, trace in outcome.errors + outcome.failures:
            raise SystemExit(trace)
        return self._result

    def runTest(self) -> None:
        """Measure."""
        logging.getLogger().setLevel(logging.WARNING)
        nova_objects.Service.enable_min_version_cache()
        self._ctxt = nova_context.get_admin_context()
        uuids = self._fill()
        # It would read the instances of all hosts, of which there are none,
        # in a thread of its own.
        self.stub_out(
            'nova.scheduler.host_manager.HostManager._init_instance_info',
            lambda *_args: None,
        )
        managers = {
            'stock': nova_manager.SchedulerManager(),
            'nova_rt': manager.RTSchedulerManager(),
        }
        ours = self._add_ours(managers['nova_rt'].host_manager)
        for one in managers.values():
            # As after each host's first report of its instances.
            one.host_manager._instance_info = {
                f'host{number}': {'instances': {}, 'updated': True}
                for number in range(self._count)
            }
        report.PLACEMENTCLIENT = Placement(uuids)
        things = {
            name: functools.partial(
                self._select,
                managers['nova_rt' if OURS in name else 'stock'],
                SPECS if name.startswith('rt') else {},
            )
            for name in WHOLE
        }
        inside: Samples = {name: [] for name in things}

        def before(name: str) -> None:
            self._prepare(OURS in name)
            if name.endswith(CHANGED):
                host_free._read.clear()
            ours.taken = 0.0

        def after(name: str) -> None:
            inside[name].append(ours.taken)

        samples = time_in_turn(things, self._repeats, before, after)
        seconds = {
            name: statistics.median(taken) for name, taken in samples.items()
        }
        self._result = {
            'hosts': self._count,
            'repeats': self._repeats,
            'seconds': seconds,
            'share_of_our_code': {
                name: statistics.median(inside[name]) / seconds[name]
                for name in samples
                if OURS in name
            },
            'with_to_without': {
                name: seconds[name] / seconds[name.split(',')[0]]
                for name in samples
                if OURS in name
            },
            'samples_s': samples,
        }

    def _add_ours(self, host_manager: Any) -> Ours:
        """Add filter, weigher and request filter, their time counted."""
        ours = Ours()
        rt_filter = rt_bandwidth_filter.RTBandwidthFilter()
        weigher = rt_bandwidth.RTBandwidthWeigher()
        rt_filter.filter_all = ours.timed(rt_filter.filter_all)
        weigher.weigh_objects = ours.timed(weigher.weigh_objects)
        host_manager.enabled_filters.append(rt_filter)
        host_manager.weighers.append(weigher)
        self._request_filter = ours.timed(request_filter.rt_bandwidth_filter)
        return ours

    def _select(self, scheduler: Any, specs: dict[str, str]) -> None:
        uuid = uuidutils.generate_uuid()
        selections = scheduler.select_destinations(
            self._ctxt,
            spec_obj=objects.request_spec(
                dict(specs), VCPUS, instance_uuid=uuid
            ),
            instance_uuids=[uuid],
            return_objects=True,
            return_alternates=True,
        )
        assert len(selections[0]) > 1

    def _fill(self) -> list[str]:
        """Compute nodes and services in the database; their UUIDs."""
        service = nova_objects.Service(
            self._ctxt, host='host0', binary='nova-compute', topic='compute'
        )
        service.create()
        node = objects.compute_node('host0', {'num_instances': '3'})
        node._context = self._ctxt
        node.memory_mb_used = 0
        node.create()
        rand = random.Random(1)  # noqa: S311
        self._stats: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        with db.get_context_manager(self._ctxt).writer.using(
            self._ctxt
        ) as session:
            node_row = _row(session, models.ComputeNode)
            service_row = _row(session, models.Service)
            rows, services = [], []
            for number in range(self._count):
                host = f'host{number}'
                rows.append(
                    node_row
                    | {
                        'id': number + 1,
                        'host': host,
                        'hypervisor_hostname': host,
                        'uuid': uuidutils.generate_uuid(),
                    }
                )
                services.append(
                    service_row
                    | {
                        'id': number + 1,
                        'host': host,
                        'uuid': uuidutils.generate_uuid(),
                    }
                )
                plain = json.loads(node_row['stats'])
                for rt, stats in (
                    (False, plain),
                    (True, plain | rt_stats(rand)),
                ):
                    self._stats[rt].append(
                        {'id': number + 1, 'stats': json.dumps(stats)}
                    )
            session.execute(models.ComputeNode.__table__.delete())
            session.execute(models.Service.__table__.delete())
            session.bulk_insert_mappings(models.ComputeNode, rows)
            session.bulk_insert_mappings(models.Service, services)
        return [row['uuid'] for row in rows]

    def _prepare(self, rt: bool) -> None:
        """Let the hosts publish, and the request filter run, or not."""
        with db.get_context_manager(self._ctxt).writer.using(
            self._ctxt
        ) as session:
            session.bulk_update_mappings(models.ComputeNode, self._stats[rt])
        registered = nova_request_filter.ALL_REQUEST_FILTERS
        registered[:] = [
            one
            for one in registered
            if one
            not in (request_filter.rt_bandwidth_filter, self._request_filter)
        ]
        if rt:
            registered.insert(0, self._request_filter)


def _row(session: Any, model: Any) -> dict[str, Any]:
    row = session.query(model).one()
    return {
        column.key: getattr(row, column.key)
        for column in model.__table__.columns
    }


def table(result: dict[str, Any]) -> str:
    """The numbers for people."""
    lines = []
    for part in result['filters']:
        lines += ['', f'Per host, {part["hosts"]} hosts of {CPUS} CPUs']
        lines += [
            f'  {name:44} {us:10.2f} us'
            for name, us in sorted(part['us_per_host'].items())
        ]
        lines += [
            f'  {name} and weigher to NUMATopologyFilter: 1/{1 / ratio:.0f} '
            f'(aim: below 1/{1 / AIM_PER_HOST:.0f}, '
            f'{_verdict(ratio < AIM_PER_HOST)})'
            for name, ratio in part['ours_to_numa_topology_filter'].items()
        ]
    for part in result['select_destinations']:
        lines += ['', f'select_destinations, {part["hosts"]} hosts']
        lines += [
            f'  {name:44} {seconds * 1e3:10.1f} ms'
            for name, seconds in part['seconds'].items()
        ]
        for name, ratio in part['with_to_without'].items():
            share = part['share_of_our_code'][name]
            lines.append(
                f'  {name}: to without {ratio:.3f}; inside our code '
                f'{share:.1%} (aim: below {AIM_WHOLE:.0%}, '
                f'{_verdict(share < AIM_WHOLE)})'
            )
    return '\n'.join(lines[1:])


def _verdict(reached: bool) -> str:
    return 'reached' if reached else 'MISSED'


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--hosts', default='1000,10000')
    parser.add_argument('--output', type=pathlib.Path)
    args = parser.parse_args()
    counts = [int(count) for count in args.hosts.split(',')]
    logging.getLogger().setLevel(logging.WARNING)
    result = {
        'what': 'cost in nova-scheduler',
        'python': platform.python_version(),
        'machine': platform.machine(),
        'filters': [],
        'select_destinations': [],
    }
    for count in counts:
        print(f'{count} hosts: filters', file=sys.stderr)
        result['filters'].append(
            bench_filters(count, 9 if count <= 1000 else 5)
        )
        print(f'{count} hosts: select_destinations', file=sys.stderr)
        result['select_destinations'].append(
            SelectDestinations(count, 9 if count <= 1000 else 3).result()
        )
    print(table(result))
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
