# SPDX-License-Identifier: Apache-2.0
"""``rt flavor create``: a real-time flavor with its demand on Placement."""

import argparse
from collections.abc import Sequence
import contextlib
from typing import Any

from osc_lib.cli import format_columns
from osc_lib.command import command

from nova_rt_client import api

_PPM = 1_000_000
#: Options of extra specs ``rt:NAME``.
_OPTIONS = {
    'enforcement': 'Required of the kernel: guarantee (default), soft or '
    'limit',
    'policy': 'Scheduling policy of the processes: rr, fifo or other',
    'priority': 'Real-time priority of the processes, 1 to 99',
    'numa': 'CPUs on one NUMA node: prefer, same or any',
    'runtime-min': 'Shortest runtime that owners of servers may choose',
    'runtime-max': 'Longest runtime that owners of servers may choose',
    'adapt': 'Law by which the runtime follows the load: throttled or '
    'quantile',
    'startup-runtime': 'Runtime while a server starts, if it is free; needs '
    '--startup-s',
    'startup-s': 'Seconds from the start for which a server has it, 1 to 3600',
    'spare': 'Runtime and period of the pool that serves urgent tasks when '
    'the runtime is used up',
    'spare-priority': 'Least real-time priority of these tasks, 1 to 99',
}


def make_specs(
    reservation: str, vcpus: int, given: dict[str, str]
) -> dict[str, str]:
    """Make the extra specs of a flavor.

    :param reservation: runtime and period
    :param given: other options, by the names of their extra specs
    :returns: those of the reservation, and the demand on Placement
    """
    runtime_us, period_us = api.parse_reservation(reservation)
    ppm = -(-runtime_us * _PPM // period_us)
    traits = [given.get('enforcement', 'guarantee').upper()]
    if 'spare' in given:
        traits.append('SPARE')
    return {
        'rt:reservation': reservation,
        **{f'rt:{name}': text for name, text in given.items()},
        'resources:CUSTOM_RT_BANDWIDTH': str(vcpus * ppm),
        # Real-time CPUs are not those of plain servers.
        'resources:VCPU': '0',
        **{f'trait:CUSTOM_RT_{trait}': 'required' for trait in traits},
    }


class CreateFlavor(api.Caller, command.ShowOne):
    """Create a real-time flavor, with all of its properties."""

    arguments = (
        ('name', {'metavar': '<name>', 'help': 'Name of the flavor'}),
        ('--reservation', {
            'required': True,
            'metavar': '<runtime>/<period>',
            'help': 'Reservation on each vCPU, in microseconds',
        }),
        *(
            (f'--{name}', {
                'type': int,
                'default': default,
                'metavar': '<number>',
                'help': f'{text} (default: {default})',
            })
            for name, default, text in (
                ('vcpus', 1, 'Number of vCPUs'),
                ('ram', 256, 'Memory size in MB'),
                ('disk', 0, 'Disk size in GB'),
            )
        ),
        *(
            (f'--{name}', {'metavar': f'<{name}>', 'help': text})
            for name, text in _OPTIONS.items()
        ),
        ('--private', {
            'action': 'store_true',
            'help': 'Give no project access to the flavor',
        }),
    )  # fmt: skip

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Sequence[Any]]:
        """Create it; if Nova refuses its properties, nothing is left.

        :returns: columns and values
        """
        fields = (name.replace('-', '_') for name in _OPTIONS)
        given = {
            field: getattr(parsed_args, field)
            for field in fields
            if getattr(parsed_args, field) is not None
        }
        specs = make_specs(parsed_args.reservation, parsed_args.vcpus, given)
        compute = self.cloud.compute
        flavor = compute.create_flavor(
            name=parsed_args.name,
            vcpus=parsed_args.vcpus,
            ram=parsed_args.ram,
            disk=parsed_args.disk,
            is_public=not parsed_args.private,
        )
        with contextlib.ExitStack() as stack:
            stack.callback(compute.delete_flavor, flavor)
            compute.create_flavor_extra_specs(flavor, specs)
            stack.pop_all()
        return ('id', 'name', 'vcpus', 'ram', 'disk', 'properties'), (
            flavor.id, flavor.name, flavor.vcpus, flavor.ram, flavor.disk,
            format_columns.DictColumn(specs),
        )  # fmt: skip
