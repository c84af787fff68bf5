# SPDX-License-Identifier: Apache-2.0
"""The wish of a server for which its host has no room.

It is kept in ``instance.system_metadata`` while the server waits to be moved
for it. Only a cold migration takes it along: the scheduler looks for a host
with room for it, and that host claims it. An evacuation does not fail for it.
"""

from collections.abc import Mapping

from nova_rt.reservation import record
from nova_rt.reservation.reservation import Reservation

#: Key in ``instance.system_metadata``; its value is a reservation as text.
KEY = f'{record.KEY}_wish'

#: Nova's task of a server between the request for its move and its leaving.
_PREPARING = 'resize_prep'


def take_along(
    rec: record.Record, metadata: Mapping[str, str], task_state: str | None
) -> record.Record:
    """Find the record that a server needs on its next host.

    :param rec: its present record
    :param metadata: its system_metadata
    :param task_state: Nova's task of the server
    :returns: the record with the wish, if it is more and the server is being
        migrated
    :raises InvalidReservation: if the wish cannot be read
    """
    text = metadata.get(KEY)
    if text is None or task_state != _PREPARING:
        return rec
    wished = rec.with_reservation(Reservation.parse(text))
    return wished if wished.ppm >= rec.ppm else rec
