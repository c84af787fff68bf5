# SPDX-License-Identifier: Apache-2.0
"""``plan``: where the servers of several services go."""

import argparse
from typing import TYPE_CHECKING, Any

from nova_rt.cmd.model import columns, options, question
from nova_rt.model import planner
from nova_rt.reservation import cpulist
from nova_rt.reservation.admission import Placement
from nova_rt.reservation.reservation import PPM

if TYPE_CHECKING:
    from nova_rt.cmd.model import planfile


class Plan(question.Question):
    """Plan services on hosts: whether they fit, on which CPUs, on how many.

    The file is YAML with a list of hosts and a list of services, see the
    manual. The exit code is 1 if not all of them fit.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file and the bounds of the plan."""
        parser.add_argument('file', help='The file.')
        parser.add_argument(
            '--placement', choices=[str(each) for each in Placement],
            help='How hosts, and CPUs on them, are chosen. Default: all are '
            'tried, and the best one is taken.',
        )  # fmt: skip
        parser.add_argument(
            '--keep-order', action='store_true',
            help='Servers are created in the order of the file. Default: in '
            'the best order that was found.',
        )  # fmt: skip
        options.add(parser, 'min-period', 'max-period', 'overhead')

    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Plan."""
        # Here, because only this command needs YAML.
        from nova_rt.cmd.model import planfile

        planned = planfile.read(given.file, options.limits(given))
        hosts, servers = planned.hosts, planned.servers
        placements = tuple(Placement)
        if given.placement is not None:
            placements = (Placement(given.placement),)
        plans = planner.plan(servers, hosts, placements, given.keep_order)
        best = plans[0]
        if best.refused:
            self.exit_code = 1
        said = _sum_up(best, planned)
        said |= _hosts(plans, planned)
        said['Placement'] = str(best.placement)
        said['Compared'] = columns.Told(
            [
                {
                    'Placement': str(each.placement),
                    'Servers': len(each.placed),
                    'Bandwidth': each.admitted_ppm / PPM,
                    'Hosts': each.hosts_used,
                }
                for each in plans
            ],
            *(
                f'{each.placement}: {len(each.placed)} servers with '
                f'{each.admitted_ppm / PPM:.3f} CPUs on {each.hosts_used} '
                'hosts'
                for each in plans
            ),
        )
        said['Places'] = _places(best, hosts)
        if best.refused:
            said['Without a place'] = columns.Told(
                [_tell(server) for server in best.refused],
                *(
                    f'{server.name}: {server.vcpus} x {server.reservation}'
                    for server in best.refused
                ),
            )
        return said


def _cpus(ppm: int, *more: str) -> columns.Told:
    return columns.Told(ppm / PPM, ' '.join((f'{ppm / PPM:.3f} CPUs', *more)))


def _sum_up(best: planner.Plan, planned: 'planfile.Planned') -> dict[str, Any]:
    """Whether all have a place, and how much is reserved."""
    servers, hosts = planned.servers, planned.hosts
    placed, total = len(best.placed), len(servers)
    asked_ppm = sum(server.total_ppm for server in servers)
    return {
        'Fits': columns.Told(
            not best.refused, 'no' if best.refused else 'yes'
        ),
        'Servers': columns.Told(placed, f'{placed} of {total}'),
        'Bandwidth': _cpus(
            best.admitted_ppm, f'of {asked_ppm / PPM:.3f} that are asked for'
        ),
        'Capacity': _cpus(sum(host.capacity.total_ppm for host in hosts)),
        'No plan exceeds': _cpus(planner.bound_ppm(servers, hosts)),
    }


def _hosts(
    plans: list[planner.Plan], planned: 'planfile.Planned'
) -> dict[str, Any]:
    """Write how many hosts are used, would do, and are needed by any plan."""
    servers, hosts = planned.servers, planned.hosts
    used = plans[0].hosts_used
    fewest = min(
        (each.hosts_used for each in plans if not each.refused), default=None
    )
    found = planner.hosts_needed(servers, hosts, fewest)
    return {
        'Hosts': columns.Told(used, f'{used} of {len(hosts)}'),
        'Hosts needed': columns.Told(
            found,
            'no number of them is enough' if found is None else str(found),
        ),
        'At least': None
        if found is None
        else planner.least_hosts(servers, [*hosts, *hosts[-1:] * found]),
    }


def _tell(server: planner.PlannedServer) -> dict[str, Any]:
    return {
        'Server': server.name,
        'vCPUs': server.vcpus,
        'Reservation': str(server.reservation),
    }


def _places(
    plan: planner.Plan, hosts: list[planner.CandidateHost]
) -> columns.Told:
    """The servers of each host, in the order in which they are created."""
    turn = {id(each): turn for turn, each in enumerate(plan.placed, 1)}
    rows, lines = [], []
    for index, placed in planner.by_host(plan):
        name = hosts[index].name
        for each in placed:
            rows.append(
                {
                    'Turn': turn[id(each)],
                    'Host': name,
                    'CPUs': list(each.cpus),
                    **_tell(each.server),
                }
            )
            lines.append(
                f'{name} {cpulist.render(each.cpus)}: {each.server.name} '
                f'{each.server.reservation}'
            )
    return columns.Told(rows, *lines)
