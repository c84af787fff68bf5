# SPDX-License-Identifier: Apache-2.0
"""Which servers are real-time, and where their records are kept.

The record in ``instance.system_metadata`` is the truth about a server's
reservation. All that the service holds in memory, defines in libvirt or
writes to the kernel is made from it, and corrected where it differs.
"""

from typing import Any

from nova_rt import exception, extra_specs, record


def is_rt(instance: Any) -> bool:
    """Look whether a server is real-time: its flavor alone decides that.

    :returns: whether it is
    """
    return extra_specs.is_rt(instance.flavor.extra_specs)


def is_rt_move(instance: Any, flavor: Any) -> bool:
    """Look whether a resize or move involves a reservation.

    :param flavor: the flavor that the server is to have
    :returns: whether the server is real-time, or is to become it
    """
    return is_rt(instance) or extra_specs.is_rt(flavor.extra_specs)


def read_record(instance: Any) -> record.Record | None:
    """Read the record kept with a server, claimed or not yet.

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
    """Read the record kept with a server that holds CPUs.

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
