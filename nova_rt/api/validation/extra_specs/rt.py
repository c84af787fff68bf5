# SPDX-License-Identifier: Apache-2.0
"""Validators of the ``rt:`` extra specs, loaded by nova-api's entry point.

Nova calls them at microversion 2.86 and later, one key at a time, and
refuses ``rt:`` keys that none of them names.
"""

from collections.abc import Callable

from nova.api.validation.extra_specs import base
import nova.conf

from nova_rt.api.validation.extra_specs import checked
import nova_rt.conf
from nova_rt.reservation import bounds, extra_specs
from nova_rt.reservation.spec import Spec

CONF = nova.conf.CONF
nova_rt.conf.register_opts(CONF)


def _check(spec: Spec) -> Callable[[str, str], None]:
    """The check of a spec, within the bounds that hold when it is called."""

    def check(_: str, value: str) -> None:
        bounds.Bounds.from_options(CONF.nova_rt).check_value(spec, value)

    return check


def register() -> list[base.ExtraSpecValidator]:
    """The validators, one for each entry of the table, for nova-api."""
    return [
        checked.CheckedValidator(spec.key, spec.text, _check(spec))
        for spec in extra_specs.SPECS.values()
    ]
