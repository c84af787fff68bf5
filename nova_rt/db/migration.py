# SPDX-License-Identifier: Apache-2.0
"""The revision of the database: bring it up, read it, compare it."""

from collections.abc import Iterator
import contextlib
import pathlib
from typing import Any

import alembic.autogenerate
import alembic.command
import alembic.config
import alembic.runtime.migration
import alembic.script
import sqlalchemy as sa

from nova_rt.db import models, session

# SQLite has one writer anyway.
_LOCKS = {
    'mysql': (
        "SELECT GET_LOCK('nova_rt_db_sync', 600)",
        "SELECT RELEASE_LOCK('nova_rt_db_sync')",
    ),
    'postgresql': (
        'SELECT 1 FROM pg_advisory_lock(6048237115)',
        'SELECT pg_advisory_unlock(6048237115)',
    ),
}


@contextlib.contextmanager
def _open() -> Iterator[tuple[sa.Connection, alembic.config.Config]]:
    config = alembic.config.Config(
        str(pathlib.Path(__file__).with_name('alembic.ini'))
    )
    with session.get_engine().connect() as connection:
        config.attributes['connection'] = connection
        yield connection, config


def sync(revision: str = 'head') -> None:
    """Bring the tables up to a revision; nothing if they are there.

    Of several at once, one does it, and the others wait.

    :param revision: the newest by default
    :raises TimeoutError: if another takes longer than ten minutes
    """
    with _open() as (connection, config), _alone(connection):
        alembic.command.upgrade(config, revision)
        connection.commit()


@contextlib.contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Keep a lock of the session, which ends with the connection at last."""
    take, give = _LOCKS.get(connection.dialect.name, ('SELECT 1', 'SELECT 1'))
    if connection.scalar(sa.text(take)) == 0:
        raise TimeoutError('another "db sync" does not end')
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(sa.text(give))
        connection.commit()


def get_version() -> str | None:
    """Read the revision of the tables.

    :returns: None before the first :func:`sync`
    """
    with _open() as (connection, _):
        return _read_version(connection)


def _read_version(connection: sa.Connection) -> str | None:
    context = alembic.runtime.migration.MigrationContext.configure(connection)
    return context.get_current_revision()


def get_newest() -> str:
    """Name the revision that this software needs."""
    return _script().get_current_head() or ''


def _script() -> alembic.script.ScriptDirectory:
    return alembic.script.ScriptDirectory(
        str(pathlib.Path(__file__).with_name('migrations'))
    )


def is_behind() -> bool:
    """Check whether the tables lack a revision that this software needs.

    Tables that are newer do not: migrations only add.
    """
    found = get_version()
    known = {each.revision for each in _script().walk_revisions()}
    return found is None or (found in known and found != get_newest())


def find_differences() -> list[str]:
    """Compare the tables with those that this software expects.

    :returns: the differences, one sentence each
    """
    with _open() as (connection, _):
        context = alembic.runtime.migration.MigrationContext.configure(
            connection
        )
        found = alembic.autogenerate.compare_metadata(
            context, models.Base.metadata
        )
        return [_describe(each) for each in found]


def _describe(difference: Any) -> str:
    """Put a difference of alembic's into words.

    Those of one column come as a list.
    """
    if isinstance(difference, list):
        return '; '.join(map(_describe, difference))
    what, *of = difference
    names = [
        str(getattr(each, 'name', None) or each)
        for each in of
        if each is not None and not isinstance(each, dict)
    ]
    return f'{what.replace("_", " ")}: {" ".join(names)}'
