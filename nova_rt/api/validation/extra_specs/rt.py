# SPDX-License-Identifier: Apache-2.0
"""Validators of the ``rt:`` extra specs, loaded by nova-api's entry point.

Nova calls them at microversion 2.86 and later, one key at a time, and
refuses ``rt:`` keys that none of them names.
"""

from nova import exception as nova_exception
from nova.api.validation.extra_specs import base
import nova.conf

from nova_rt import bounds, exception, extra_specs
import nova_rt.conf

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)


class RTExtraSpecValidator(base.ExtraSpecValidator):
    """Validator that lets nova_rt's own table judge the value."""

    def __init__(self, spec: extra_specs.Spec) -> None:
        super().__init__(spec.key, spec.text, {'type': str})
        self._spec = spec

    def validate(self, name: str, value: str | float) -> None:
        """Judge one pair.

        :param value: numbers reach a validator as JSON numbers
        :raises nova.exception.ValidationError: with our message
        """
        allowed = bounds.Bounds.from_options(CONF.nova_rt)
        try:
            allowed.check_value(self._spec, str(value))
        except exception.InvalidRequest as err:
            raise nova_exception.ValidationError(
                f'Validation failed; extra spec {name}: {err}'
            ) from err


def register() -> list[base.ExtraSpecValidator]:
    """The validators, one for each entry of the table, for nova-api."""
    return [RTExtraSpecValidator(spec) for spec in extra_specs.SPECS.values()]
