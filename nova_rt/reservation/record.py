# SPDX-License-Identifier: Apache-2.0
"""The record of a server's reservation, and its text: one short line.

A record is a request with the CPUs that were claimed for it. It is passed
whole to admission and to the kernel's back ends.

The text is kept in ``instance.system_metadata`` (values of 255 characters)
and in the domain's ``<metadata>``, so that either suffices for a start of the
container. An example:
``v=1;q=1400;p=2000;n=3;e=guarantee;s=rr;r=1;c=1-2,7``

=========  ================================================================
``v``      lowest version that a reader must know
``q, p``   runtime and period, microseconds
``n``      number of vCPUs
``c``      CPUs: a list such as ``1-2,7``, or packed (:mod:`.cpulist`) if the
           record would be too long; empty until they are claimed
others     the other extra specs, by their letters in
           :class:`nova_rt.reservation.extra_specs.ExtraSpecs`
=========  ================================================================

Rules for a reader, so that several versions can coexist:

- It refuses a record with a ``v`` above its own. A writer therefore writes
  the lowest ``v`` that a reader of this record has to know, not its own.
- It takes the default for a missing extra spec, which is newer than the
  record, or was at its default.
- It preserves an unknown field, and writes it back. A field that must not be
  ignored takes a new ``v``.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import re
from typing import Any, Self

from nova_rt import exception
from nova_rt.reservation import cpulist, extra_specs
from nova_rt.reservation.request import Request
from nova_rt.reservation.reservation import Reservation

#: Key in ``instance.system_metadata``.
KEY = 'nova_rt'

#: Width of ``instance_system_metadata.value`` (nova/db/main/models.py).
MAX_LENGTH = 255

#: Version 1 has no packed CPUs, and a server of version 2 would run without
#: the pool of spare bandwidth that it needs.
_PACKED_CPUS = 2
_SPARE = 3
_VERSION = 3

# ASCII without the separators. int() takes the digits of other scripts.
_FIELD = re.compile('([a-z][a-z0-9]*)=([!-:<>-~]*)')
_NUMBER = re.compile('[0-9]{1,9}')

_OF_SPECS = {
    field: spec.letter
    for field, spec in extra_specs.SPECS.items()
    if spec.letter is not None
}
_KNOWN = {'q', 'p', 'n', 'c', *_OF_SPECS.values()}

# Version 1 refuses a record without them. Other extra specs are not written
# at their default: that leaves more room for CPUs.
_ALWAYS = {'e', 's', 'r'}


@dataclasses.dataclass(frozen=True)
class Record:
    """A request and its claimed CPUs.

    :ivar cpus: ascending; empty until claimed
    :ivar unknown: fields of a newer version: pairs of key and value
    """

    request: Request
    cpus: tuple[int, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()

    @functools.cached_property
    def ppm(self) -> int:
        """The bandwidth on each of its CPUs."""
        return self.request.reservation.ppm

    @property
    def total_ppm(self) -> int:
        """The bandwidth on all of its CPUs together."""
        return len(self.cpus) * self.ppm

    def claimed_on(self, cpus: tuple[int, ...]) -> Self:
        """Fill in the claimed CPUs.

        :param cpus: in any order
        :returns: a copy
        """
        return dataclasses.replace(self, cpus=tuple(sorted(cpus)))

    def with_runtime(self, runtime_us: int) -> Self:
        """Replace the runtime.

        :returns: a copy
        :raises InvalidReservation: if it does not fit the period
        """
        return self.with_reservation(
            dataclasses.replace(
                self.request.reservation, runtime_us=runtime_us
            )
        )

    def with_reservation(self, reservation: Reservation) -> Self:
        """Replace the reservation.

        :returns: a copy
        """
        request = dataclasses.replace(self.request, reservation=reservation)
        return dataclasses.replace(self, request=request)

    def encode(self) -> str:
        """Encode the record as text.

        CPUs are packed only if the record would be too long otherwise.

        :returns: at most MAX_LENGTH characters
        :raises InvalidRecord: if the text would be longer
        """
        least = 1 if self.request.spare is None else _SPARE
        text = self._render(least, cpulist.render)
        if len(text) > MAX_LENGTH:
            text = self._render(max(least, _PACKED_CPUS), _render_shortest)
        if len(text) > MAX_LENGTH:
            raise exception.InvalidRecord(
                'these CPUs are too many and too scattered for a record: it '
                f'would have {len(text)} characters, over {MAX_LENGTH}: '
                f'{text}'
            )
        return text

    def _render(
        self, version: int, render_cpus: Callable[[tuple[int, ...]], str]
    ) -> str:
        fields = {'v': str(version)} | self._list_fields(render_cpus)
        return ';'.join(f'{key}={value}' for key, value in fields.items())

    def _list_fields(
        self, render_cpus: Callable[[tuple[int, ...]], str]
    ) -> dict[str, str]:
        request = self.request
        fields = {
            'q': str(request.reservation.runtime_us),
            'p': str(request.reservation.period_us),
            'n': str(request.vcpus),
        }
        for field, letter in _OF_SPECS.items():
            value = getattr(request, field)
            if letter in _ALWAYS or value != extra_specs.SPECS[field].default:
                fields[letter] = str(value)
        fields['c'] = render_cpus(self.cpus)
        return fields | dict(self.unknown)

    @classmethod
    def decode(cls, text: str) -> 'Record':
        """Decode the result of :meth:`encode` of this or another version.

        :returns: the record, with the fields that this version does not know
        :raises InvalidRecord: if it has another format, or needs a newer
            version
        """
        try:
            fields = _split(text)
            version = _parse_number(fields.pop('v', ''))
            if version > _VERSION:
                raise ValueError(
                    f'it needs a nova_rt that reads version {version}, this '
                    f'one reads up to version {_VERSION}'
                )
            return cls(**_parse_fields(fields))
        except (ValueError, exception.InvalidRequest) as err:
            shown = text if len(text) <= MAX_LENGTH else text[:40] + '...'
            raise exception.InvalidRecord(
                f'cannot read the record {shown!r}: {err}'
            ) from err


def _render_shortest(cpus: tuple[int, ...]) -> str:
    text = cpulist.render(cpus)
    if len(cpus) > cpulist.MAX_PACKED:
        return text
    return min(text, cpulist.pack(cpus), key=len)


def _split(text: str) -> dict[str, str]:
    """Split a record into fields.

    :returns: key -> value, in their order
    :raises ValueError: if the text is not made of fields
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f'it has {len(text)} characters, over {MAX_LENGTH}')
    fields: dict[str, str] = {}
    for part in text.split(';'):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise ValueError(f'{part!r} is not <key>=<value>')
        if match[1] in fields:
            raise ValueError(f'{match[1]!r} is given twice')
        fields[match[1]] = match[2]
    return fields


def _parse_fields(fields: Mapping[str, str]) -> dict[str, Any]:
    """Parse the fields of a record.

    :returns: arguments of :class:`Record`
    :raises ValueError: if a field is missing or wrong
    :raises InvalidRequest: if the value of an extra spec is wrong
    """
    missing = {'q', 'p', 'n', 'c'} - fields.keys()
    if missing:
        raise ValueError(f'{min(missing)!r} is missing')
    values = {
        field: extra_specs.SPECS[field].parse(fields[letter])
        for field, letter in _OF_SPECS.items()
        if letter in fields
    }
    reservation = Reservation(
        _parse_number(fields['q']), _parse_number(fields['p'])
    )
    vcpus = _parse_number(fields['n'])
    cpus = fields['c']
    return {
        'request': Request(reservation, vcpus, **values),
        'cpus': cpulist.unpack(cpus) if '~' in cpus else cpulist.parse(cpus),
        'unknown': tuple(
            (key, fields[key]) for key in fields if key not in _KNOWN
        ),
    }


def _parse_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) == 0:
        raise ValueError(f'{text!r} is not a number from 1')
    return int(text)
