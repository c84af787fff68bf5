# SPDX-License-Identifier: Apache-2.0
"""Reading a RequestSpec: what a server asks for, seen from the scheduler."""

from typing import Any

from nova_rt import bounds, extra_specs


def parse(spec_obj: Any, allowed: bounds.Bounds) -> extra_specs.Request | None:
    """What this server asks for.

    The hint of the RequestSpec applies. It stays there for the server's
    life, so a move meets it too: with the flavor it was given with unless
    the move is a resize, where the new flavor's reservation is to hold. A
    resize has to be told apart here once servers can be resized.

    :param spec_obj: nova.objects.RequestSpec
    :returns: None for a server that is not real-time
    :raises InvalidRequest: with a message for the user
    """
    flavor = spec_obj.flavor
    hints = spec_obj.scheduler_hints if 'scheduler_hints' in spec_obj else None
    hint = (hints or {}).get(extra_specs.HINT)
    specs = flavor.extra_specs if 'extra_specs' in flavor else {}
    return allowed.parse_request(specs, flavor.vcpus, hint)
