# SPDX-License-Identifier: Apache-2.0
"""Validators of the ``lxc:`` extra specs, loaded by nova-api's entry point."""

from nova.api.validation.extra_specs import base

from nova_rt import task_limit
from nova_rt.api.validation.extra_specs import checked


def register() -> list[base.ExtraSpecValidator]:
    """The validators of this namespace, for nova-api."""
    return [
        checked.CheckedValidator(
            task_limit.KEY, task_limit.TEXT, task_limit.VALUES.parse
        )
    ]
