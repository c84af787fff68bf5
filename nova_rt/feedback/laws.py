# SPDX-License-Identifier: Apache-2.0
"""The laws by their names in flavors."""

from collections.abc import Callable, Mapping

from nova_rt.feedback.captain import Captain
from nova_rt.feedback.law import Law
from nova_rt.feedback.quantile import Quantile
from nova_rt.reservation.extra_specs import Adapt

LAWS: Mapping[Adapt, Callable[[], Law]] = {
    Adapt.THROTTLED: Captain,
    Adapt.QUANTILE: Quantile,
}
