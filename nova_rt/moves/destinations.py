# SPDX-License-Identifier: Apache-2.0
"""The check of a move's destination, made by its source.

Our own destinations claim the server's new reservation, or record that it will
have none. The stock nova-compute does neither: the server would arrive without
any reservation, and a revert would bring it back to CPUs that were not kept
for it. An evacuation has no live source to make this check, and a shelved
server has no destination. In both cases the server keeps its flavor, for which
Placement names hosts of ours alone.
"""

from typing import Any

from nova import objects

from nova_rt.reservation import node_stats
from nova_rt.tracking import servers


def find_reason(
    context: Any, instance: Any, flavor: Any, migration: Any
) -> str | None:
    """Find a reason to keep a server from leaving for its destination.

    The key of an earlier move in its system_metadata looks like one of this
    destination, and a key may be lost. So the service of the destination is
    checked as well.

    :param instance: nova.objects.Instance as the destination has sent it
    :param flavor: its new flavor
    :param migration: nova.objects.Migration
    :returns: the reason as a sentence; None if it may leave
    """
    if not servers.is_rt_move(instance, flavor):
        return None
    node = objects.ComputeNode.get_by_host_and_nodename(
        context, migration.dest_compute, migration.dest_node
    )
    if node_stats.FREE in node.stats:
        if servers.is_move_noted(instance):
            return None
        return (
            'another service has overwritten the record of its move: move it '
            'again'
        )
    # Users do not learn names of hosts; administrators see the migration.
    return (
        'the host that was chosen does not run nova-rt-compute: a server with '
        'a reservation cannot be moved there, not even to become an ordinary '
        'one'
    )
