# SPDX-License-Identifier: Apache-2.0
"""The gate on the source of a move: where a reservation may go from here.

Our own destinations claim what a server is to have, or note that it is to have
nothing. The stock nova-compute does neither: the server would arrive as if it
never had a reservation, and a revert would bring it back to CPUs that nobody
has kept for it. An evacuation has no source that could be asked, and what is
shelved no destination: there the server keeps its flavor, for which Placement
names hosts of ours alone.
"""

from typing import Any

from nova import objects

from nova_rt.reservation import node_stats
from nova_rt.tracking import servers


def find_reason(
    context: Any, instance: Any, flavor: Any, migration: Any
) -> str | None:
    """Look whether a server must not leave for its destination.

    What an earlier move has left in its system_metadata looks like a note of
    this destination, and a note may be lost. So what runs there is asked for
    as well.

    :param instance: nova.objects.Instance as the destination has sent it
    :param flavor: the flavor that it is to have
    :param migration: nova.objects.Migration
    :returns: why not, a sentence; None if it may go
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
