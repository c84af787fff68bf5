# SPDX-License-Identifier: Apache-2.0
"""Nova's databases, read as ``nova-manage`` reads them."""

from collections.abc import Iterator
import contextlib
from typing import Any


class Unreadable(Exception):
    """Something cannot be read from here."""


def connect() -> Any:
    """Prepare Nova's objects for reading the API database.

    :returns: the context of an administrator
    :raises Unreadable: if no database is configured
    """
    # Here, because the commands for a host need no Nova.
    from nova import context, objects
    import nova.conf
    from nova.db.api import api as api_db
    from oslo_db.sqlalchemy import enginefacade

    conf = nova.conf.CONF
    if not conf.api_database.connection:
        raise Unreadable('[api_database] connection is not set')
    # As api_db.configure(), which also wants options of osprofiler that are
    # known only after Nova's way of reading its configuration.
    with contextlib.suppress(enginefacade.AlreadyStartedError):
        api_db.context_manager.configure(**dict(conf.api_database.items()))
    objects.register_all()
    return context.get_admin_context()


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Turn errors of Nova's databases into one of ours.

    Those of SQLAlchemy and its drivers have no common root, and their text may
    hold the password of the URL.

    :returns: nothing, once
    :raises Unreadable: instead
    """
    try:
        yield
    except Unreadable:
        raise
    except Exception as err:
        raise Unreadable(
            f'the database does not answer ({type(err).__name__})'
        ) from err
