# SPDX-License-Identifier: Apache-2.0
"""Which servers are real-time, and where their records are kept."""

from typing import Any

from nova_rt import exception, extra_specs, record


def is_rt(instance: Any) -> bool:
    """Whether a server is real-time: its flavor alone decides that."""
    return extra_specs.is_rt(instance.flavor.extra_specs)


def read_record(instance: Any) -> record.Record | None:
    """The record kept with a server, claimed or not yet.

    :param instance: a nova Instance with its flavor and system_metadata
    :returns: None for a server that is not real-time
    :raises InvalidRecord: if a real-time server has none, or a broken one
    """
    if not is_rt(instance):
        return None
    text = instance.system_metadata.get(record.KEY)
    if text is None:
        raise exception.InvalidRecord(
            'this server has a real-time flavor but no record of a '
            'reservation: it was not created by nova-rt-compute'
        )
    return record.Record.decode(text)


def read_claimed(instance: Any) -> record.Record | None:
    """The record kept with a server that holds CPUs.

    :returns: None for a server that is not real-time
    :raises InvalidRecord: if a real-time server holds none
    """
    rec = read_record(instance)
    if rec is not None and not rec.cpus:
        raise exception.InvalidRecord(
            f'no CPUs were claimed for this server: {rec.encode()}'
        )
    return rec


def write_record(instance: Any, rec: record.Record) -> None:
    """Keep a record with a server; the caller saves the instance.

    :raises InvalidRecord: if it is too long to be kept
    """
    instance.system_metadata[record.KEY] = rec.encode()
