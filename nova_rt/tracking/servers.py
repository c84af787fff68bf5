# SPDX-License-Identifier: Apache-2.0
"""Real-time servers, and the keys of their records.

The record in ``instance.system_metadata`` is the truth about a server's
reservation. The state in memory, in libvirt and in the kernel is derived from
it, and corrected where it differs.

During a move a server holds bandwidth twice: at the source and at the
destination, which may be one host. Each slot has a key of its own:

===============  ==========================================================
``nova_rt``      the present reservation of the server, in agreement with its
                 flavor: a plain flavor has none
``nova_rt_new``  the claim of the destination, from its start until the server
                 runs with it
``nova_rt_old``  the claim of the source, from then until the move is confirmed
                 or reverted
``nova_rt_from`` the name of the source, present with ``nova_rt_new``
===============  ==========================================================

A resize also keeps ``nova_rt_old_changed`` beside ``nova_rt_old``: the
``nova_rt_changed`` of the old flavor, for a revert.

Three more keys are those of a change of the reservation of a running server:

==================  =======================================================
``nova_rt_change``  the record that the change leads to, until it has ended
``nova_rt_changed`` number of the last change, and of the flavor that it
                    changes: the record differs from that flavor. The flavor is
                    0 after a resize to another one, which ends the change
``nova_rt_wish``    the reservation for which the host has no room, while the
                    server waits to be migrated: see
                    :mod:`nova_rt.reservation.wish`
==================  =======================================================

Exactly one of ``nova_rt_new`` and ``nova_rt_old`` is present during a move. A
plain flavor, which claims nothing, is represented by the text ``plain``. So a
host finds its slot by its role in Nova's migration, at any time: the source
holds ``nova_rt_old``, and ``nova_rt`` before that is present; the destination
holds ``nova_rt_new``, and ``nova_rt`` before and after that is present.

They change in the same save as Nova's own fields: :func:`switch` with the new
flavor, :func:`switch_back` with the old flavor and host, :func:`arrive` with
the new host. The keys of a failed move have no effect, since Nova has no
migration for it, and the next move replaces them.

The source saves the destination as the server's host before the destination
runs it with the new record. Until then the CPUs of ``nova_rt`` are those of
another host: see :func:`has_left`.
"""

import dataclasses
from typing import Any

from nova_rt import exception
from nova_rt.reservation import extra_specs, record, wish
from nova_rt.reservation.reservation import Reservation

NEW = f'{record.KEY}_new'
OLD = f'{record.KEY}_old'
FROM = f'{record.KEY}_from'
CHANGE = f'{record.KEY}_change'
CHANGED = f'{record.KEY}_changed'
OLD_CHANGED = f'{record.KEY}_old_changed'

#: The text of a plain flavor's slot.
_PLAIN = 'plain'


def is_rt(instance: Any) -> bool:
    """Tell whether a server is real-time, by its flavor alone.

    :returns: whether it is
    """
    return extra_specs.is_rt(instance.flavor.extra_specs)


def is_rt_move(instance: Any, flavor: Any) -> bool:
    """Tell whether a resize or move involves a reservation.

    :param flavor: the new flavor of the server
    :returns: whether the server is real-time, or will be
    """
    return is_rt(instance) or extra_specs.is_rt(flavor.extra_specs)


def is_rt_moved(instance: Any) -> bool:
    """Tell whether the present move of a server involves a reservation.

    :param instance: a nova Instance with its flavors and system_metadata
    :returns: whether it has one on either side, at any stage of the move
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
    """Read the claimed record of a server on its own host.

    :returns: None for a server that is not real-time, or will not be
    :raises InvalidRecord: if a real-time server has none with CPUs
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
    """Remove the CPUs from a server's record; the caller saves the instance.

    The request stays, for a new claim on the server's next host. An
    unreadable record stays as it is.
    """
    try:
        rec = read_record(instance)
    except exception.InvalidRecord:
        return
    if rec is not None:
        # Nor does a change go on there that its host has not ended.
        end_change(instance, dataclasses.replace(rec, cpus=()))


# Changes of a reservation. The caller saves the instance.


def is_lesser(one: record.Record, other: record.Record) -> bool:
    """Tell whether a record takes no more of any CPU than another."""
    return one.ppm <= other.ppm and {*one.cpus} <= {*other.cpus}


def find_unchangeable(instance: Any) -> str | None:
    """Find a reason not to change the reservation of a server now.

    :returns: None if there is none, else a sentence
    """
    # As nova.compute.vm_states; a moved server waits for its confirmation.
    if instance.task_state is not None or (
        instance.vm_state not in ('active', 'stopped')
    ):
        return (
            f'the server is {instance.vm_state}, with the task '
            f'{instance.task_state}: it has to be active or stopped, without '
            'a task'
        )
    if has_left(instance):
        # Its end replaces the record.
        return (
            'the last move of the server was not finished: start it by a hard '
            'reboot'
        )
    return None


def is_changing(instance: Any) -> bool:
    """Tell whether the reservation of a server is being changed."""
    return CHANGE in instance.system_metadata


def is_changed(instance: Any) -> bool:
    """Tell whether a server has another reservation than its flavor."""
    _, flavor = _read_changed(instance)
    return bool(flavor == instance.flavor.id)


def read_generation(instance: Any) -> int:
    """Read the number of the last change of a server; 0 without one."""
    return _read_changed(instance)[0]


def read_ended(instance: Any) -> int:
    """Read the number of the last change that a resize has ended.

    :returns: 0 if there is none
    """
    generation, flavor = _read_changed(instance)
    return 0 if flavor == instance.flavor.id else generation


def _read_changed(instance: Any) -> tuple[int, int]:
    words = instance.system_metadata.get(CHANGED, '').split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return 0, 0
    return int(words[0]), int(words[1])


def begin_change(
    instance: Any, target: record.Record, generation: int
) -> None:
    """Write the journal of a change.

    :param target: the record that it leads to
    :param generation: number of the change
    """
    instance.system_metadata[CHANGE] = target.encode()
    _write_changed(instance, generation, instance.flavor.id)


def _write_changed(instance: Any, generation: int, flavor: int) -> None:
    instance.system_metadata[CHANGED] = f'{generation} {flavor}'


def read_change(instance: Any) -> record.Record | None:
    """Read the journal of a change.

    :returns: the record that it leads to; None without one
    :raises InvalidRecord: if it cannot be read
    """
    text = instance.system_metadata.get(CHANGE)
    return None if text is None else record.Record.decode(text)


def end_change(instance: Any, rec: record.Record) -> None:
    """Make a record the present one, and remove the journal."""
    write_record(instance, rec)
    instance.system_metadata.pop(CHANGE, None)
    instance.system_metadata.pop(wish.KEY, None)


def set_wish(
    instance: Any, wanted: Reservation | None, generation: int
) -> bool:
    """Set the reservation for which a server is to be migrated.

    :param wanted: None for none
    :param generation: number of the change
    :returns: whether it was another one
    """
    text = None if wanted is None else str(wanted)
    if instance.system_metadata.get(wish.KEY) == text:
        return False
    if text is None:
        del instance.system_metadata[wish.KEY]
    else:
        instance.system_metadata[wish.KEY] = text
        # The record on the next host differs from the flavor.
        _write_changed(instance, generation, instance.flavor.id)
    return True


# Moves. The caller saves the instance.


def note_move(instance: Any, rec: record.Record | None) -> None:
    """Record the request, or the claim, of a move's destination.

    :param rec: without CPUs until they are claimed; None for a plain flavor
    :raises InvalidRecord: if it is too long to be kept
    """
    text = _PLAIN if rec is None else rec.encode()
    begin_move(instance)
    instance.system_metadata[NEW] = text
    instance.system_metadata[FROM] = instance.host


def begin_move(instance: Any) -> None:
    """Remove the keys of earlier moves, before a new one is recorded.

    A stock nova-compute that a plain server was reverted to leaves the record
    of a real-time flavor, which the server no longer has.
    """
    forget_move(instance)
    if instance.obj_attr_is_set('system_metadata') and not is_rt(instance):
        instance.system_metadata.pop(record.KEY, None)


def forget_move(instance: Any) -> bool:
    """Remove the keys of a move, and keep the present record.

    :param instance: may lack system_metadata: a copy without it was never
        changed, and a server that is gone has none
    :returns: whether there was a key
    """
    if not instance.obj_attr_is_set('system_metadata'):
        return False
    metadata = instance.system_metadata
    keys = (NEW, OLD, OLD_CHANGED, FROM)
    found = [key for key in keys if key in metadata]
    for key in found:
        del metadata[key]
    return bool(found)


def has_switched(instance: Any) -> bool:
    """Tell whether a moving server runs with its new reservation."""
    return OLD in instance.system_metadata


def has_left(instance: Any) -> bool:
    """Tell whether a server has left its old host and not yet arrived.

    This state persists if the request to its new host was lost, or that host
    died.

    :returns: True if the server's host is the destination of its move, while
        flavor and record are still the old ones
    """
    metadata = instance.system_metadata
    return NEW in metadata and metadata.get(FROM, instance.host) != (
        instance.host
    )


def is_move_noted(instance: Any) -> bool:
    """Tell whether a destination has recorded its request or claim."""
    return NEW in instance.system_metadata


def is_note_lost(instance: Any) -> bool:
    """Tell whether the keys of a server's present move were lost.

    A service that has read the server before they were written, and saves its
    system_metadata afterwards, removes them: Nova replaces all keys.

    :param instance: a nova Instance with a claim on a destination
    :returns: True if the move involves a reservation and has no key
    """
    metadata = instance.system_metadata
    return is_rt_moved(instance) and not (NEW in metadata or OLD in metadata)


def switch(instance: Any, resized: bool = False) -> bool:
    """Make the claim of the destination the present record of a server.

    :param resized: whether the flavor becomes another one, too
    :returns: whether a move of a real-time server was recorded
    """
    metadata = instance.system_metadata
    if NEW not in metadata:
        return False
    metadata.pop(FROM, None)
    metadata.pop(wish.KEY, None)
    old = metadata.pop(record.KEY, _PLAIN)
    _set_current(instance, metadata.pop(NEW))
    metadata[OLD] = old
    if resized and CHANGED in metadata:
        # The change is not back with the same flavor later.
        metadata[OLD_CHANGED] = metadata[CHANGED]
        _write_changed(instance, read_generation(instance), 0)
    return True


def switch_back(instance: Any) -> bool:
    """Make the claim of the source the present record of a server again.

    :returns: whether a move of a real-time server was recorded
    """
    metadata = instance.system_metadata
    if OLD in metadata:
        _set_current(instance, metadata.pop(OLD))
        if OLD_CHANGED in metadata:
            metadata[CHANGED] = metadata.pop(OLD_CHANGED)
        return True
    # A move that is reverted before it has switched.
    metadata.pop(FROM, None)
    return metadata.pop(NEW, None) is not None


def arrive(instance: Any) -> bool:
    """Make the claim of a new host the only record of a server.

    For an evacuation, which needs no confirmation.

    :returns: whether a move of a real-time server was recorded
    """
    switched = switch(instance)
    forget_move(instance)
    # The dead host has not ended it: nothing of it was recorded.
    instance.system_metadata.pop(CHANGE, None)
    return switched


def _set_current(instance: Any, text: str) -> None:
    instance.system_metadata.pop(record.KEY, None)
    if text != _PLAIN:
        instance.system_metadata[record.KEY] = text


def read_new(instance: Any) -> record.Record | None:
    """Read the record for the destination, claimed or not yet.

    :returns: None for a plain flavor
    :raises InvalidRecord: if there is none, or it cannot be read
    """
    text = instance.system_metadata.get(NEW)
    if text is None:
        raise exception.InvalidRecord('no move of this server was noted')
    return None if text == _PLAIN else record.Record.decode(text)


def read_source(instance: Any) -> record.Record | None:
    """Read the claim of a move's source.

    :returns: None if there is none
    :raises InvalidRecord: if it cannot be read
    """
    return _read_slot(instance, OLD, record.KEY)


def read_destination(instance: Any) -> record.Record | None:
    """Read the claim of a move's destination.

    :returns: None if there is none
    :raises InvalidRecord: if it cannot be read
    """
    return _read_slot(instance, NEW, record.KEY)


def read_beside(instance: Any) -> record.Record | None:
    """Read the second claim of a host that is source and destination.

    :returns: None if there is none
    :raises InvalidRecord: if it cannot be read
    """
    return _read_slot(instance, OLD, NEW)


def _read_slot(instance: Any, *keys: str) -> record.Record | None:
    """Read the first of these keys that is there."""
    metadata = instance.system_metadata
    text = next((metadata[key] for key in keys if key in metadata), _PLAIN)
    return _check_claimed(
        None if text == _PLAIN else record.Record.decode(text)
    )


def read_for(instance: Any, host: str) -> record.Record | None:
    """Read the record that a server needs to run on a host.

    :param host: name of a host that runs it, or is about to. If it is not
        the server's, the server is being evacuated to it
    :returns: None for a server that is not real-time
    :raises InvalidRecord: if a real-time server has no claim there, or its
        move there is unfinished
    """
    if instance.host == host and has_left(instance):
        raise exception.InvalidRecord(
            'the move of this server to this host was not finished: start it '
            'by a hard reboot'
        )
    if instance.host == host or not is_rt(instance):
        return read_claimed(instance)
    return _check_claimed(read_new(instance))
