# SPDX-License-Identifier: Apache-2.0
"""Validators of the ``lxc:`` extra specs, loaded by nova-api's entry point."""

from nova import exception as nova_exception
from nova.api.validation.extra_specs import base

from nova_rt import exception, task_limit


class TaskLimitValidator(base.ExtraSpecValidator):
    """Validator of how many tasks a container may have."""

    def __init__(self) -> None:
        super().__init__(task_limit.KEY, task_limit.TEXT, {'type': str})

    def validate(self, name: str, value: str | float) -> None:
        """Judge one pair.

        :param value: numbers reach a validator as JSON numbers
        :raises nova.exception.ValidationError: with our message
        """
        try:
            task_limit.VALUES.parse(name, str(value))
        except exception.InvalidRequest as err:
            raise nova_exception.ValidationError(
                f'Validation failed; extra spec {name}: {err}'
            ) from err


def register() -> list[base.ExtraSpecValidator]:
    """The validators of this namespace, for nova-api."""
    return [TaskLimitValidator()]
