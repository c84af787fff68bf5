# SPDX-License-Identifier: Apache-2.0
"""Our rules among nova-api's: the right to use hints of ours.

An operator writes them into Nova's policy file, beside Nova's own.
"""

from typing import Any

from nova import policy as nova_policy
from nova.policies import base
from oslo_policy import policy

HINTS = 'compute_rt:hints'

_RULES = [
    policy.DocumentedRuleDefault(
        name=HINTS,
        # All users who may create servers: Nova's own rule comes on top.
        check_str=base.RULE_ANY,
        description='Give a hint of nova_rt, such as ``rt_reservation``, when '
        'creating a server. Checked by nova-api, where it has the '
        '``rt_hints`` filter, and by nova-scheduler; beside '
        '``os_compute_api:servers:create``.',
        operations=[{'method': 'POST', 'path': '/servers'}],
        scope_types=['project'],
    )
]


def list_rules() -> list[policy.RuleDefault]:
    """All rules, for nova-api and for the tools of oslo.policy."""
    return list(_RULES)


def authorize_hints(context: Any) -> None:
    """Require that the user may give hints of ours.

    :param context: nova.context.RequestContext
    :raises nova.exception.PolicyNotAuthorized: if not
    """
    nova_policy.init()
    # Nova makes a new enforcer when its policy is reset, and has no public
    # way to it that does not read the configuration anew.
    enforcer = nova_policy._ENFORCER
    for rule in _RULES:
        try:
            enforcer.register_default(rule)
        except policy.DuplicatePolicyError:
            pass  # Known since an earlier request, or by another thread.
    context.can(HINTS)
