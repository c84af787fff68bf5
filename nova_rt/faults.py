# SPDX-License-Identifier: Apache-2.0
"""Our errors as Nova shows them to users.

Nova keeps 255 characters of the message of its own exceptions in a server's
fault, and of all others only the class name (nova/compute/utils.py,
exception_to_dict()). The messages of Nova's exceptions begin with text such as
the server's UUID, which would push the numbers of the reason out.
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
    """Return an error as text for users; see nova_rt.exception.tell().

    :returns: the reason for the fault that is raised ``from`` the error
    """
    return rt_exception.tell(error, CONF.nova_rt.refusal_details)


def tell_failure(failure: exception.RescheduledException) -> str:
    """Return the cause of a failed build as text for users.

    Nova puts the text of any error into this exception. The text of a foreign
    error may name files and programs of the host: only its class is shown, as
    exception_to_dict() does.

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
    """An action is not supported by a server, which stays as it was."""

    msg_fmt = '%(reason)s'


class BuildAborted(exception.BuildAbortException):
    """This server cannot be built, here or on another host."""

    msg_fmt = '%(reason)s'


class ReservationNotHeld(exception.InstancePowerOnFailure):
    """The failure of a container to start with its reservation."""

    msg_fmt = '%(reason)s'
    # The user can do nothing about it. With this code alone, Nova keeps the
    # traceback, which has the cause, for administrators.
    code = 500
