# SPDX-License-Identifier: Apache-2.0
"""The record of a server's reservation: one short line of text.

It is kept in ``instance.system_metadata`` (whose values hold 255 characters)
and in the domain's ``<metadata>``, so that every start of the container can
be served from either, without asking anyone.
"""

import dataclasses

from nova_rt import admission, cpulist, exception, extra_specs
from nova_rt.request import Request
from nova_rt.reservation import Reservation

#: Key in ``instance.system_metadata``.
KEY = 'nova_rt'

#: Width of ``instance_system_metadata.value`` (nova/db/main/models.py).
MAX_LENGTH = 255

_VERSION = '1'


@dataclasses.dataclass(frozen=True)
class Record:
    """A request and the CPUs that were claimed for it.

    :ivar cpus: ascending; empty until claimed
    """

    request: Request
    cpus: tuple[int, ...] = ()

    @property
    def claim(self) -> admission.Claim:
        """The bandwidth held."""
        return admission.Claim(self.cpus, self.request.reservation.ppm)

    def on(self, cpus: tuple[int, ...]) -> 'Record':
        """The same request, claimed on these CPUs."""
        return dataclasses.replace(self, cpus=tuple(sorted(cpus)))

    def encode(self) -> str:
        """As text.

        :raises InvalidRecord: if it would not fit into MAX_LENGTH characters
        """
        req = self.request
        text = (
            f'v={_VERSION};q={req.reservation.runtime_us}'
            f';p={req.reservation.period_us};n={req.vcpus}'
            f';e={req.enforcement};s={req.policy};r={req.priority}'
            f';c={cpulist.render(self.cpus)}'
        )
        if len(text) > MAX_LENGTH:
            raise exception.InvalidRecord(
                f'record of {len(text)} characters is over {MAX_LENGTH}: '
                f'{text}'
            )
        return text

    @classmethod
    def decode(cls, text: str) -> 'Record':
        """Read what :meth:`encode` wrote.

        :raises InvalidRecord: if it is anything else
        """
        try:
            fields = dict(part.split('=') for part in text.split(';'))
            if fields['v'] != _VERSION:
                raise ValueError(f'version {fields["v"]}')
            request = Request(
                reservation=Reservation(int(fields['q']), int(fields['p'])),
                vcpus=int(fields['n']),
                **{
                    field: spec.parse(fields[spec.letter])
                    for field, spec in extra_specs.SPECS.items()
                    if spec.letter
                },
            )
            return cls(request, cpulist.parse(fields['c']))
        except (KeyError, ValueError, exception.InvalidRequest) as err:
            raise exception.InvalidRecord(
                f'cannot read the record {text!r}: {err}'
            ) from err
