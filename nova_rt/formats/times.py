# SPDX-License-Identifier: Apache-2.0
"""Points in time as whole microseconds, for the database and the bus."""

import datetime

UTC = datetime.UTC
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_us(when: datetime.datetime) -> int:
    """Convert a time to its stored and sent form.

    :param when: with a time zone
    :returns: microseconds since 1970
    """
    return (when - _EPOCH) // _MICROSECOND


def from_us(number_us: int) -> datetime.datetime:
    """Convert microseconds since 1970, as stored and sent, to a time.

    :returns: in UTC
    """
    return _EPOCH + datetime.timedelta(microseconds=number_us)
