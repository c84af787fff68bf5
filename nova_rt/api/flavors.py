# SPDX-License-Identifier: Apache-2.0
"""Checks of extra specs in nova-api, when they are given to a flavor.

Nova's own validators, ours among them, see them only from microversion 2.86
on, and clients ask for 2.1 by themselves.
"""

from typing import Any

from nova import exception as nova_exception
from nova import objects
from nova.policies import flavor_extra_specs as policies

from nova_rt import exception
from nova_rt.reservation import extra_specs, resources
from nova_rt.reservation.bounds import Bounds


def check(
    context: Any, flavor_id: str, specs: Any, action: str, allowed: Bounds
) -> None:
    """Check extra specs against our table and the present ones of the flavor.

    A flavor that lacks a key is not refused: clients give them one at a time
    in any order, and the scheduler refuses an incomplete flavor.

    :param context: nova.context.RequestContext of the user
    :param specs: those that are given, not validated
    :param action: of Nova's policy: create or update
    :raises InvalidRequest: with a message for the user
    """
    if not isinstance(specs, dict):
        return
    if not context.can(policies.POLICY_ROOT % action, target={}, fatal=False):
        # Nova answers with 403.
        return
    # Nova refuses other types and keeps numbers as texts.
    given = {
        key: str(value)
        for key, value in specs.items()
        if isinstance(value, str | int | float)
    }
    for key, text in given.items():
        if key.startswith(extra_specs.NAMESPACE):
            spec = extra_specs.find(key)
            try:
                allowed.check_value(spec, text)
            except exception.InvalidRequest as err:
                raise type(err)(f'extra spec {key}: {err}') from err
    try:
        flavor = objects.Flavor.get_by_flavor_id(context, flavor_id)
    except nova_exception.FlavorNotFound:
        return
    both = flavor.extra_specs | given
    if extra_specs.is_rt(both):
        resources.check(both)
