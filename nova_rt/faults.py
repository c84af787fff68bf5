# SPDX-License-Identifier: Apache-2.0
"""Our errors as Nova shows them to users.

Nova keeps 255 characters of the message of its own exceptions in a server's
fault, and of all others only the class name (nova/compute/utils.py,
exception_to_dict()). What Nova's exceptions say before the reason, the
server's UUID among it, would push the numbers out.
"""

import errno

from nova import exception
import nova.conf

from nova_rt import conf
from nova_rt import exception as rt_exception

CONF = nova.conf.CONF
conf.register_opts(CONF)

#: The reason why live migration is refused.
CANNOT_GO_LIVE = (
    'real-time servers are containers, which cannot be moved while they run: '
    'use cold migration'
)

CANNOT_LEAVE_CELL = 'real-time servers cannot be moved to another cell'


def tell(error: Exception) -> str:
    """Return what users may read of an error; see nova_rt.exception.tell().

    :returns: the reason for the fault that is raised ``from`` the error
    """
    return rt_exception.tell(error, CONF.nova_rt.refusal_details)


def tell_failure(failure: exception.RescheduledException) -> str:
    """The same for what failed a build, whoever raised it.

    Nova puts the text of any error into this exception. Those of others may
    name files and programs of the host: of them, exception_to_dict() shows
    the class alone.

    :returns: the reason for the fault that is raised ``from`` the failure
    """
    error = failure.__context__
    full = rt_exception.RefusalDetails.FULL
    if CONF.nova_rt.refusal_details == full or isinstance(
        error, exception.NovaException
    ):
        return str(failure.kwargs['reason'])
    return type(error or failure).__name__


def describe(error: Exception) -> str:
    """Name an error in a log, with its errno or class.

    :returns: one line
    """
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return f'{error.strerror or error} ({name})'
    if isinstance(error, rt_exception.NovaRTError):
        return str(error)
    return f'{type(error).__name__}: {error}'


class ActionRefused(exception.Invalid):
    """A server is not made for this; it stays as it was."""

    msg_fmt = '%(reason)s'


class BuildAborted(exception.BuildAbortException):
    """This server cannot be built, here or on another host."""

    msg_fmt = '%(reason)s'


class ReservationNotHeld(exception.InstancePowerOnFailure):
    """A container was not started, or stopped again."""

    msg_fmt = '%(reason)s'
    # The user can do nothing about it. With this code alone, Nova keeps the
    # traceback, which has the cause, for administrators.
    code = 500
