# SPDX-License-Identifier: Apache-2.0
"""Our errors as Nova shows them to users.

Nova keeps 255 characters of the message of its own exceptions in a server's
fault, and of all others only the class name (nova/compute/utils.py,
exception_to_dict()). What Nova's exceptions say before the reason, the
server's UUID among it, would push the numbers out.
"""

from nova import exception

#: Why resize, migration, evacuation and shelving are refused.
CANNOT_MOVE = 'real-time servers cannot be moved, resized or shelved'


class ActionRefused(exception.Invalid):
    """A server is not made for this; it stays as it was."""

    msg_fmt = '%(reason)s'


class BuildAborted(exception.BuildAbortException):
    """This server cannot be built, here or on another host."""

    msg_fmt = '%(reason)s'


class ReservationNotHeld(exception.InstancePowerOnFailure):
    """A container was not started, or stopped again."""

    msg_fmt = '%(reason)s'
