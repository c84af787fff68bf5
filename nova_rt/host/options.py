# SPDX-License-Identifier: Apache-2.0
"""The options that decide the offer of a host.

nova-rt-compute reads them from its configuration and writes them next to its
counts, so that nova-rt-exporter has the same options without a configuration
of Nova.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, Self

from nova_rt.reservation import admission


@dataclasses.dataclass(frozen=True)
class Options:
    """Values of options of the groups ``nova_rt`` and ``compute``.

    They have the names of the options in ``nova_rt``, which are also those of
    the parameters of :class:`.host.Host`, documented there.

    :ivar others: from :func:`nova_rt.conf.nova.read_cpus`
    """

    cpu_set: str | None = None
    smt: bool = False
    placement: str = admission.Placement.WORST_FIT.value
    reserved_ppm: int = 0
    partition: str | None = None
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)
    spare_pool: str | None = None

    @classmethod
    def from_group(cls, group: Any, others: Mapping[str, str]) -> Self:
        """Take the values of option group ``nova_rt``.

        :param group: anything with the options as attributes
        :param others: from :func:`nova_rt.conf.nova.read_cpus`
        :returns: the options
        """
        found = {
            field.name: getattr(group, field.name)
            for field in dataclasses.fields(cls)
            if field.name != 'others'
        }
        return cls(**found, others=others)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as values for JSON."""
        return {**dataclasses.asdict(self), 'others': dict(self.others)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read the result of :meth:`to_dict` of this or another version.

        :returns: the options that this version knows; a missing one has its
            default
        :raises ValueError: if one is of another type
        """
        known: dict[str, Any] = {
            field.name: found[field.name]
            for field in dataclasses.fields(cls)
            if field.name in found
        }
        made = cls(**known)
        sound = (
            isinstance(made.cpu_set, str | None)
            and isinstance(made.smt, bool)
            and made.placement in list(admission.Placement)
            and type(made.reserved_ppm) is int
            and isinstance(made.partition, str | None)
            and isinstance(made.spare_pool, str | None)
            and isinstance(made.others, dict)
            and all(isinstance(each, str) for each in made.others.values())
        )
        if not sound:
            raise ValueError('they are not the options of a host')
        return made
