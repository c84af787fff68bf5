# SPDX-License-Identifier: Apache-2.0
"""The connection to the database, and the statements that differ by kind."""

from collections.abc import Callable, Mapping
import contextlib
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql, postgresql, sqlite

GROUP = 'nova_rt_database'

#: Errors of a database. oslo.db leaves some of SQLAlchemy as they are: those
#: of a full disk, or of a server that is read-only.
ERRORS = (db_exception.DBError, sa.exc.SQLAlchemyError)
#: A URL that cannot be read, or names a kind of database that is not known.
#: A subset of them.
NO_DATABASE = sa.exc.ArgumentError

_F = TypeVar('_F', bound=Callable[..., Any])


def is_of_value(err: Exception) -> bool:
    """Look whether a database refuses a value, and so would every time.

    :param err: one of :data:`ERRORS`
    :returns: whether it does
    """
    cause = getattr(err, 'inner_exception', None) or err
    return isinstance(
        err, db_exception.DBDataError | db_exception.DBInvalidUnicodeParameter
    ) or isinstance(cause, sa.exc.DataError)


# A class of its own: enginefacade keeps the session in the object.
@enginefacade.transaction_context_provider
class _Context:
    pass


_facade = enginefacade.transaction_context()
_password: str | None = None


def configure(conf: cfg.ConfigOpts) -> None:
    """Take the options of ``[nova_rt_database]``; connects at first use.

    A second call replaces the first.
    """
    global _facade, _password
    facade = enginefacade.transaction_context()
    known = {opt: value for opt, value in conf[GROUP].items()}
    for ours in [key for key in known if key.startswith('keep_')]:
        del known[ours]
    facade.configure(sqlite_fk=True, **known)
    _facade = facade
    _password = None
    with contextlib.suppress(NO_DATABASE):
        _password = sa.make_url(known['connection']).password


def describe(err: Exception) -> str:
    """Describe an error of the database, in its own words.

    :param err: one of :data:`ERRORS`
    :returns: verb and complement, in one line, without a password
    """
    found = getattr(err, 'inner_exception', None) or err
    said = getattr(found, 'orig', None)
    away = isinstance(err, db_exception.DBConnectionError)
    verb = 'does not answer' if away or said is None else 'refuses'
    text = ' '.join(str(each) for each in getattr(said, 'args', ()))
    line = text.strip().partition('\n')[0] or type(found).__name__
    if _password:
        line = line.replace(_password, '***')
    return f'{verb} ({line})'


def get_engine() -> sa.Engine:
    """Connect.

    :returns: the engine for writing
    """
    engine: sa.Engine = _facade.writer.get_engine()
    return engine


def reader() -> contextlib.AbstractContextManager[orm.Session]:
    """Open a transaction that reads."""
    used: contextlib.AbstractContextManager[orm.Session]
    used = _facade.reader.using(_Context())
    return used


def writer() -> contextlib.AbstractContextManager[orm.Session]:
    """Open a transaction that writes; it is committed at the end."""
    used: contextlib.AbstractContextManager[orm.Session]
    used = _facade.writer.using(_Context())
    return used


def retried(function: _F) -> _F:
    """Decorate a function with a transaction of its own to survive deadlocks.

    A connection that is lost is another matter: the event is delivered again.
    """
    wrapped: _F = oslo_db_api.wrap_db_retry(
        max_retries=8,
        retry_interval=0.1,
        max_retry_interval=2,
        retry_on_deadlock=True,
    )(function)
    return wrapped


_INSERT: dict[str, Any] = {
    'mysql': mysql.insert,
    'postgresql': postgresql.insert,
    'sqlite': sqlite.insert,
}


def insert_once(
    session: orm.Session, table: sa.Table, row: Mapping[str, Any], key: str
) -> None:
    """Insert a row, unless one with the same key is there.

    :param key: a column with a unique constraint
    """
    name = session.get_bind().dialect.name
    insert = _INSERT[name](table).values(**row)
    if name == 'mysql':
        # Not IGNORE, which also takes values that do not fit.
        insert = insert.on_duplicate_key_update({key: table.c[key]})
    else:
        insert = insert.on_conflict_do_nothing(index_elements=[key])
    session.execute(insert)
