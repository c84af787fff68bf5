# SPDX-License-Identifier: Apache-2.0
"""The row of a reservation: the record as it came, beside older columns.

The record has the values of all extra specs, also of those that only later
versions know. The columns are what the version before reads and writes, and
stay filled for it.
"""

from typing import Any

from nova_rt import exception
from nova_rt.db import models
from nova_rt.reservation import cpulist
from nova_rt.reservation.extra_specs import Plain
from nova_rt.reservation.record import Record


def write(row: models.ReservationRow, record: Record) -> None:
    """Write a record into a row."""
    for name, value in _make_columns(record).items():
        setattr(row, name, value)
    try:
        row.record = record.encode()
    except exception.InvalidRecord:
        # A later version has a shorter way to write it.
        row.record = None


def read_specs(row: models.ReservationRow) -> dict[str, Plain]:
    """Read the values of extra specs.

    :returns: field of :class:`nova_rt.reservation.extra_specs.ExtraSpecs` ->
        value; of those in columns alone if the record cannot be read
    """
    record = _decode(row.record)
    if record is not None and all(
        getattr(row, name) == value
        for name, value in _make_columns(record).items()
    ):
        return record.request.plain()
    # A conductor of the version before has changed the columns since.
    return {
        'reservation': f'{row.runtime_us}/{row.period_us}',
        'enforcement': row.enforcement,
        'policy': row.policy,
        'priority': row.priority,
    }


def _decode(text: str | None) -> Record | None:
    if text is None:
        return None
    try:
        return Record.decode(text)
    except exception.InvalidRecord:
        # It needs a later version.
        return None


def _make_columns(record: Record) -> dict[str, Any]:
    request = record.request
    return {
        'runtime_us': request.reservation.runtime_us,
        'period_us': request.reservation.period_us,
        'ppm': request.reservation.ppm,
        'vcpus': request.vcpus,
        'cpus': cpulist.render(record.cpus),
        'enforcement': request.enforcement.value,
        'policy': request.policy.value,
        'priority': request.priority,
    }
