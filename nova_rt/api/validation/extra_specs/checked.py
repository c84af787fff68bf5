# SPDX-License-Identifier: Apache-2.0
"""Extra specs that a function of ours checks."""

from collections.abc import Callable

from nova import exception as nova_exception
from nova.api.validation.extra_specs import base

from nova_rt import exception


class CheckedValidator(base.ExtraSpecValidator):
    """Validator of one extra spec.

    :param key: with its namespace
    :param text: description for users
    :param check: called with key and value, raises InvalidRequest
    """

    def __init__(
        self, key: str, text: str, check: Callable[[str, str], object]
    ) -> None:
        super().__init__(key, text, {'type': str})
        self._check = check

    def validate(self, name: str, value: str | float) -> None:
        """Check one pair.

        :param value: numbers reach a validator as JSON numbers
        :raises nova.exception.ValidationError: with our message
        """
        try:
            self._check(name, str(value))
        except exception.InvalidRequest as err:
            raise nova_exception.ValidationError(
                f'Validation failed; extra spec {name}: {err}'
            ) from err
