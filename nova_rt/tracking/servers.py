# SPDX-License-Identifier: Apache-2.0
"""Real-time servers, and the places where their records are kept.

The record in ``instance.system_metadata`` is the truth about a server's
reservation. All that the service holds in memory, defines in libvirt or
writes to the kernel is made from it, and corrected where it differs.

During a move a server holds bandwidth twice: at the source and at the
destination, which may be one host. Each slot has a key of its own:

===============  ==========================================================
``nova_rt``      what the server runs with; it always agrees with the
                 server's flavor: there is none for a plain flavor
``nova_rt_new``  what the destination holds, from its claim until the server
                 runs with it
``nova_rt_old``  what the source holds, from then until the move is confirmed
                 or reverted
``nova_rt_from`` the name of the source, as long as ``nova_rt_new`` is there
===============  ==========================================================

Exactly one of ``nova_rt_new`` and ``nova_rt_old`` is there during a move, also
if what it stands for is a plain flavor, which holds nothing: then its text is
``plain``. So a host tells its slot by its role in Nova's migration, whenever
it reads: the source holds ``nova_rt_old``, and before that is there
``nova_rt``; the destination holds ``nova_rt_new``, and before or after that is
there ``nova_rt``.

They change with what Nova saves at the same time: :func:`switch` with the
new flavor, :func:`switch_back` with the old flavor and host,
:func:`arrive` with the new host. What a move that has failed leaves behind
counts for nothing, since Nova has no migration for it, and the next move
replaces it.

A source saves a server as being at its destination before that runs it with
the new record. Until then the CPUs of ``nova_rt`` are those of another host:
see :func:`has_left`.
"""

import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.reservation import extra_specs, record

NEW = f'{record.KEY}_new'
OLD = f'{record.KEY}_old'
FROM = f'{record.KEY}_from'

#: Stands for the slot of a plain flavor.
_PLAIN = 'plain'


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


def is_rt_moved(instance: Any) -> bool:
    """Look whether the move that a server is in involves a reservation.

    :param instance: a nova Instance with its flavors and system_metadata
    :returns: whether it has one on either side, however far the move has come
    """
    flavors = (instance.flavor, instance.old_flavor, instance.new_flavor)
    return any(
        flavor is not None and extra_specs.is_rt(flavor.extra_specs)
        for flavor in flavors
    )


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
    """Read what a server holds on the host whose server it is.

    :returns: None for a server that is not real-time, or is not to be
    :raises InvalidRecord: if a real-time server holds none
    """
    if has_left(instance):
        return _check_claimed(read_new(instance))
    return _check_claimed(read_record(instance))


def _check_claimed(rec: record.Record | None) -> record.Record | None:
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


def forget_cpus(instance: Any) -> None:
    """Note with a server that it holds no CPUs; the caller saves the instance.

    What it asks for stays: it is claimed anew on its next host. A record that
    cannot be read stays as it is.
    """
    try:
        rec = read_record(instance)
    except exception.InvalidRecord:
        return
    if rec is not None:
        write_record(instance, dataclasses.replace(rec, cpus=()))


# Moves. The caller saves the instance.


def note_move(instance: Any, rec: record.Record | None) -> None:
    """Note what the destination of a move is to hold, or holds.

    :param rec: without CPUs until they are claimed; None for a plain flavor
    :raises InvalidRecord: if it is too long to be kept
    """
    text = _PLAIN if rec is None else rec.encode()
    begin_move(instance)
    instance.system_metadata[NEW] = text
    instance.system_metadata[FROM] = instance.host


def begin_move(instance: Any) -> None:
    """Forget what earlier moves have left, before anything is noted.

    A stock nova-compute to which a plain server was reverted leaves the record
    of the real-time flavor that the server no longer has.
    """
    forget_move(instance)
    if instance.obj_attr_is_set('system_metadata') and not is_rt(instance):
        instance.system_metadata.pop(record.KEY, None)


def forget_move(instance: Any) -> bool:
    """Forget what is held beside what the server runs with.

    :param instance: nothing was noted in a copy of a server whose
        system_metadata was never loaded; a server that is gone has none
    :returns: whether there was anything
    """
    if not instance.obj_attr_is_set('system_metadata'):
        return False
    metadata = instance.system_metadata
    found = [key for key in (NEW, OLD, FROM) if key in metadata]
    for key in found:
        del metadata[key]
    return bool(found)


def has_switched(instance: Any) -> bool:
    """Look whether a server that is moved runs with its new reservation."""
    return OLD in instance.system_metadata


def has_left(instance: Any) -> bool:
    """Look whether a server has left its old host and not yet arrived.

    If nobody ends that, it stays so: the request to its new host was lost, or
    that died.

    :returns: whether it has, so that its host holds what the destination of
        its move does, while flavor and record are the old ones
    """
    metadata = instance.system_metadata
    return NEW in metadata and metadata.get(FROM, instance.host) != (
        instance.host
    )


def is_move_noted(instance: Any) -> bool:
    """Look whether a destination has noted what a server is to have there."""
    return NEW in instance.system_metadata


def is_note_lost(instance: Any) -> bool:
    """Look whether the notes of the move that a server is in are gone.

    A service that has read the server before they were written, and saves its
    system_metadata afterwards, removes them: Nova replaces all of it.

    :param instance: a nova Instance that a destination has claimed for
    :returns: whether they are
    """
    metadata = instance.system_metadata
    return is_rt_moved(instance) and not (NEW in metadata or OLD in metadata)


def switch(instance: Any) -> bool:
    """Put what the destination of a server holds for it in force.

    :returns: whether a move of a real-time server was noted
    """
    metadata = instance.system_metadata
    if NEW not in metadata:
        return False
    metadata.pop(FROM, None)
    old = metadata.pop(record.KEY, _PLAIN)
    _set_current(instance, metadata.pop(NEW))
    metadata[OLD] = old
    return True


def switch_back(instance: Any) -> bool:
    """Put what the source of a server holds for it in force.

    :returns: whether a move of a real-time server was noted
    """
    metadata = instance.system_metadata
    if OLD in metadata:
        _set_current(instance, metadata.pop(OLD))
        return True
    # A move that is reverted before it has switched.
    metadata.pop(FROM, None)
    return metadata.pop(NEW, None) is not None


def arrive(instance: Any) -> bool:
    """Put what its new host holds for a server in force; forget the old one.

    For evacuation, which nobody confirms.

    :returns: whether a move of a real-time server was noted
    """
    switched = switch(instance)
    forget_move(instance)
    return switched


def _set_current(instance: Any, text: str) -> None:
    instance.system_metadata.pop(record.KEY, None)
    if text != _PLAIN:
        instance.system_metadata[record.KEY] = text


def read_new(instance: Any) -> record.Record | None:
    """Read what was noted for the destination, claimed or not yet.

    :returns: None for a plain flavor
    :raises InvalidRecord: if nothing was noted, or it cannot be read
    """
    text = instance.system_metadata.get(NEW)
    if text is None:
        raise exception.InvalidRecord('no move of this server was noted')
    return None if text == _PLAIN else record.Record.decode(text)


def read_source(instance: Any) -> record.Record | None:
    """Read what the source of a move holds.

    :returns: None if nothing
    :raises InvalidRecord: if it cannot be read
    """
    return _read_slot(instance, OLD)


def read_destination(instance: Any) -> record.Record | None:
    """Read what the destination of a move holds.

    :returns: None if nothing
    :raises InvalidRecord: if it cannot be read
    """
    return _read_slot(instance, NEW)


def read_beside(instance: Any) -> record.Record | None:
    """Read what a host that is source and destination holds in addition.

    :returns: None if nothing
    :raises InvalidRecord: if it cannot be read
    """
    key = OLD if OLD in instance.system_metadata else NEW
    text = instance.system_metadata.get(key, _PLAIN)
    return _check_claimed(
        None if text == _PLAIN else record.Record.decode(text)
    )


def _read_slot(instance: Any, key: str) -> record.Record | None:
    text = instance.system_metadata.get(
        key, instance.system_metadata.get(record.KEY, _PLAIN)
    )
    return _check_claimed(
        None if text == _PLAIN else record.Record.decode(text)
    )


def read_for(instance: Any, host: str) -> record.Record | None:
    """Read what a server must have if it runs on a host.

    :param host: name of a host that runs it, or is about to. If it is not
        the server's, the server is being evacuated to it
    :returns: None for a server that is not real-time
    :raises InvalidRecord: if a real-time server holds nothing there, or its
        move there has not come to its end
    """
    if instance.host == host and has_left(instance):
        raise exception.InvalidRecord(
            'its move to this host was not finished: start it by a hard reboot'
        )
    if instance.host == host or not is_rt(instance):
        return read_claimed(instance)
    return _check_claimed(read_new(instance))
