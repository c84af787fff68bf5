# SPDX-License-Identifier: Apache-2.0
"""Nova's databases, read as ``nova-manage`` reads them."""

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


def hide(err: Exception) -> Unreadable:
    """Make the error of a database that does not answer.

    :param err: of SQLAlchemy or its drivers, which have no common root; its
        text may hold the password of the URL
    :returns: an error to raise from it
    """
    return Unreadable(f'the database does not answer ({type(err).__name__})')
