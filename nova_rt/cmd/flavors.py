# SPDX-License-Identifier: Apache-2.0
"""Real-time flavors in Nova's API database that should say more, or else.

A flavor with the resources and traits of its servers keeps them away from
hosts without reservations even where nova-scheduler lacks our filter.
"""

from collections.abc import Iterable
import dataclasses
import shlex
from typing import Any

from nova_rt import exception
from nova_rt.cloud import nova_db
from nova_rt.reservation import extra_specs, resources
from nova_rt.reservation.bounds import Bounds


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem with one flavor.

    :ivar flavor_id: its ID, as users give it
    :ivar name: its name
    :ivar refusal: why its servers are refused; None if they are not
    :ivar commands: that mend it
    """

    flavor_id: str
    name: str
    refusal: str | None
    commands: tuple[str, ...]

    def render(self) -> list[str]:
        """Lines for a shell: commands, and the rest as comments."""
        if self.refusal is None:
            return [f'# {self.name}', *self.commands]
        return [f'# {self.name} ({self.flavor_id}), refused: {self.refusal}']


def read() -> Iterable[Any]:
    """Every flavor: nova.objects.Flavor with its extra specs.

    :returns: private and disabled ones as well
    :raises nova_db.Unreadable: if there is no database, or none that answers
    """
    with nova_db.errors():
        context = nova_db.connect()
        # Here, because the commands for a host need no Nova.
        from nova import objects

        return list(objects.FlavorList.get_all(context, inactive=True))


def judge(flavor: Any, allowed: Bounds) -> Finding | None:
    """Find the faults of a flavor.

    :param flavor: nova.objects.Flavor
    :param allowed: the operator's bounds
    :returns: None if nothing is, or if it is no real-time flavor
    """
    specs = flavor.extra_specs
    if not extra_specs.is_rt(specs):
        return None
    try:
        request = allowed.parse_request(specs, flavor.vcpus)
    except exception.InvalidRequest as err:
        return Finding(flavor.flavorid, flavor.name, str(err), ())
    assert request is not None  # it has an extra spec of ours
    add, remove = resources.differences(specs, request)
    if not add and not remove:
        return None
    commands = []
    if add:
        pairs = [f'{key}={value}' for key, value in add.items()]
        commands.append(_command('set', flavor.flavorid, pairs))
    if remove:
        commands.append(_command('unset', flavor.flavorid, remove))
    return Finding(flavor.flavorid, flavor.name, None, tuple(commands))


def _command(verb: str, flavor_id: str, properties: list[str]) -> str:
    words = ['openstack', 'flavor', verb, flavor_id]
    for text in properties:
        words += ['--property', text]
    return shlex.join(words)
