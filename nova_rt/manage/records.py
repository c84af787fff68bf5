# SPDX-License-Identifier: Apache-2.0
"""The records of Nova and Placement, as the commands read them.

Needs Nova: import it in the action of a command.
"""

from collections.abc import Iterator
import contextlib

from nova_rt import exception
from nova_rt.cloud import nova_db
from nova_rt.cloud.records import Records
from nova_rt.cmd.cli import base


@contextlib.contextmanager
def connect() -> Iterator[Records]:
    """Turn a failed reading into the error of a command.

    :returns: the records, once
    :raises CannotRun: if a source does not answer
    :raises CommandFailed: if it has no such server or host
    """
    try:
        yield Records()
    except exception.NotFound as err:
        raise base.CommandFailed(str(err)) from err
    except nova_db.Unreadable as err:
        raise base.CannotRun(
            f'cannot read the records of Nova and Placement: {err}. Run this '
            'where nova-api or nova-conductor has its configuration'
        ) from err
