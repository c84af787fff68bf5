# SPDX-License-Identifier: Apache-2.0
"""Measure what real-time servers cost nova-scheduler.

    python bench/scheduler.py [--hosts 1000,10000] [--output FILE]

Two measurements, on real objects of Nova, hosts of 64 CPUs:

* the cost per host of RTBandwidthFilter and RTBandwidthWeigher, beside
  NUMATopologyFilter and ComputeCapabilitiesFilter, each with a request that
  gives it work: 4 reserved CPUs, 4 pinned CPUs, two capabilities;
* whole ``select_destinations``, without this project and with it, for a
  plain and for a real-time server: Nova's databases and Placement are real,
  in sqlite and in this process; every host is a candidate.

The variants are measured in turn, in the same process, many times; times are
medians of the CPU time of the process. Needs Nova's and Placement's tests.
"""

import argparse
from collections.abc import Callable, Iterable
import functools
import gc
import inspect
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

from nova import objects as nova_objects
from nova import weights
from nova.db.main import api as db
from nova.db.main import models
from nova.objects import fields
from nova.scheduler import filters
from nova.scheduler import manager as nova_manager
from nova.scheduler import request_filter as nova_request_filter
from nova.scheduler.filters import (
    compute_capabilities_filter,
    numa_topology_filter,
)
from oslo_utils import uuidutils
from placement import db_api as placement_db
from placement.db.sqlalchemy import models as placement_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lab.measure import machine
from nova_rt.reservation import admission, node_stats
from nova_rt.scheduler import host_stats, manager, request_filter
from nova_rt.scheduler.filters import rt_bandwidth_filter
from nova_rt.scheduler.weights import rt_bandwidth
from nova_rt.tests.unit.scheduler import cloud, objects

CPUS = 64
VCPUS = 4
SPECS = {'rt:reservation': '400/1000'}

#: Stats that nova-compute writes for a node with some servers.
STATS = {
    'failed_builds': '0',
    'io_workload': '0',
    'num_instances': '5',
    'num_os_type_None': '5',
    'num_proj_8d2f9a1c3b5e47f6a0b1c2d3e4f50617': '3',
    'num_proj_0f1e2d3c4b5a69788796a5b4c3d2e1f0': '2',
    'num_task_None': '5',
    'num_vm_active': '4',
    'num_vm_stopped': '1',
}

#: Marks what is measured as after a start: no host was looked at before.
CHANGED = 'first request'

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

#: Targets of the issue: our cost relative to NUMATopologyFilter's, and what we
#: add to the whole.
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
    """Return the stats that nova-rt-compute publishes for a host in use."""
    free = {cpu: rand.randrange(0, 950_001, 50_000) for cpu in range(CPUS)}
    return node_stats.render(admission.Capacity(free)) | {
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
            host_stats._parsed.clear()

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


class Timer:
    """Sums the CPU time spent inside some functions."""

    def __init__(self) -> None:
        self.taken = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, its time counted; for a generator, its items."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            result = function(*args, **kwargs)
            if inspect.isgenerator(result):
                result = list(result)
            self.taken += time.process_time() - start
            return result

        return wrapper


class SelectDestinations(cloud.HostsTestCase):
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
        self.flags(max_placement_results=self._count, group='scheduler')
        # No compute service is there to say that it is alive.
        self.flags(service_down_time=1_000_000)
        self._fill()
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
        for one in managers.values():
            # As after each host's first report of its instances.
            one.host_manager._instance_info = {
                f'host{number}': {'instances': {}, 'updated': True}
                for number in range(self._count)
            }
        ours = self._add_ours(managers['nova_rt'].host_manager)
        placement = self._watch_placement()
        things = {
            name: functools.partial(
                self._select,
                managers['nova_rt' if OURS in name else 'stock'],
                SPECS if name.startswith('rt') else {},
            )
            for name in WHOLE
        }
        inside: Samples = {name: [] for name in things}
        waiting: Samples = {name: [] for name in things}

        def before(name: str) -> None:
            self._prepare(OURS in name)
            if name.endswith(CHANGED):
                host_stats._parsed.clear()
            ours.taken = placement.taken = 0.0

        def after(name: str) -> None:
            inside[name].append(ours.taken)
            waiting[name].append(placement.taken)

        samples = time_in_turn(things, self._repeats, before, after)
        self._result = {
            'hosts': self._count,
            'repeats': self._repeats,
            'seconds': _medians(samples),
            'seconds_in_placement': _medians(waiting),
            'seconds_in_our_code': _medians(inside),
            'with_to_without': {
                name: statistics.median(
                    mine / stock
                    for mine, stock in zip(
                        samples[name], samples[name.split(',')[0]], strict=True
                    )
                )
                for name in samples
                if OURS in name
            },
            'samples_s': samples,
        }

    def _add_ours(self, host_manager: Any) -> Timer:
        """Add filter, weigher and request filter, their time counted."""
        ours = Timer()
        rt_filter = rt_bandwidth_filter.RTBandwidthFilter()
        weigher = rt_bandwidth.RTBandwidthWeigher()
        rt_filter.filter_all = ours.timed(rt_filter.filter_all)
        weigher.weigh_objects = ours.timed(weigher.weigh_objects)
        host_manager.enabled_filters.append(rt_filter)
        host_manager.weighers.append(weigher)
        self._request_filter = ours.timed(request_filter.rt_bandwidth_filter)
        return ours

    def _watch_placement(self) -> Timer:
        """Count the time that Placement takes to answer."""
        placement = Timer()
        client = 'nova.scheduler.client.report.SchedulerReportClient'
        for method in ('get', 'put', 'post'):
            self.stub_out(
                f'{client}.{method}',
                placement.timed(getattr(self.placement, f'_fake_{method}')),
            )
        return placement

    def _select(self, scheduler: Any, specs: dict[str, str]) -> None:
        uuid = uuidutils.generate_uuid()
        selections = scheduler.select_destinations(
            self.context,
            spec_obj=objects.request_spec(
                dict(specs), VCPUS, instance_uuid=uuid
            ),
            instance_uuids=[uuid],
            return_objects=True,
            return_alternates=True,
        )
        assert len(selections[0]) > 1

    def _fill(self) -> None:
        """The same host many times, in Nova's databases and Placement's."""
        self.add_host(
            'host0',
            STATS,
            dict.fromkeys(
                ('CUSTOM_RT_BANDWIDTH', 'VCPU', 'MEMORY_MB', 'DISK_GB'),
                10**9,
            ),
            ('CUSTOM_RT_GUARANTEE', 'CUSTOM_RT_LIMIT'),
        )
        numbers = range(1, self._count)
        uuids = [uuidutils.generate_uuid() for _ in numbers]
        with db.get_context_manager(self.context).writer.using(
            self.context
        ) as session:
            node = _row(session.connection(), models.ComputeNode.__table__)
            for table in (models.ComputeNode, models.Service):
                row = _row(session.connection(), table.__table__)
                session.execute(
                    table.__table__.insert(),
                    [
                        row
                        | {
                            'id': row['id'] + number,
                            'host': f'host{number}',
                            'uuid': uuid,
                        }
                        | (
                            {'hypervisor_hostname': f'host{number}'}
                            if table is models.ComputeNode
                            else {}
                        )
                        for number, uuid in zip(numbers, uuids, strict=True)
                    ],
                )
        self._fill_placement(numbers, uuids)
        rand = random.Random(1)  # noqa: S311
        plain = json.loads(node['stats'])
        self._stats: dict[bool, list[dict[str, Any]]] = {
            rt: [
                {
                    'id': node['id'] + number,
                    'stats': json.dumps(
                        plain | rt_stats(rand) if rt else plain
                    ),
                }
                for number in range(self._count)
            ]
            for rt in (False, True)
        }

    @staticmethod
    def _fill_placement(numbers: Iterable[int], uuids: list[str]) -> None:
        tables = (
            placement_models.ResourceProvider.__table__,
            placement_models.Inventory.__table__,
            placement_models.ResourceProviderTrait.__table__,
        )
        with placement_db.get_placement_engine().begin() as connection:
            providers, inventories, traits = tables
            first = _row(connection, providers)
            connection.execute(
                providers.insert(),
                [
                    first
                    | {
                        'id': first['id'] + number,
                        'root_provider_id': first['id'] + number,
                        'name': f'host{number}',
                        'uuid': uuid,
                    }
                    for number, uuid in zip(numbers, uuids, strict=True)
                ],
            )
            for table in (inventories, traits):
                rows = connection.execute(table.select()).mappings().all()
                connection.execute(
                    table.insert(),
                    [
                        {key: row[key] for key in row if key != 'id'}
                        | {'resource_provider_id': first['id'] + number}
                        for row in rows
                        for number in numbers
                    ],
                )

    def _prepare(self, rt: bool) -> None:
        """Set whether the hosts publish and the request filter runs."""
        with db.get_context_manager(self.context).writer.using(
            self.context
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


def _row(connection: Any, table: Any) -> dict[str, Any]:
    """The only row of a table."""
    return dict(connection.execute(table.select()).mappings().one())


def _medians(samples: Samples) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in samples.items()}


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
            f'  {name:44} {seconds * 1e3:10.1f} ms, Placement '
            f'{part["seconds_in_placement"][name] * 1e3:.1f} ms, our code '
            f'{part["seconds_in_our_code"][name] * 1e3:.1f} ms'
            for name, seconds in part['seconds'].items()
        ]
        for name, ratio in part['with_to_without'].items():
            lines.append(f'  {name}: {ratio - 1:+.1%}')
            if not name.endswith(CHANGED):
                lines[-1] += (
                    f' (aim: below {AIM_WHOLE:.0%}, '
                    f'{_verdict(ratio - 1 < AIM_WHOLE)})'
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
        'machine': machine.describe(),
        'filters': [],
        'select_destinations': [],
    }
    for count in counts:
        print(f'{count} hosts: filters', file=sys.stderr)
        result['filters'].append(
            bench_filters(count, 15 if count <= 1000 else 5)
        )
        print(f'{count} hosts: select_destinations', file=sys.stderr)
        result['select_destinations'].append(
            SelectDestinations(count, 15 if count <= 1000 else 5).result()
        )
    print(table(result))
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
