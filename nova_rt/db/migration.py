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

    :param revision: the newest by default
    """
    with _open() as (connection, config):
        alembic.command.upgrade(config, revision)
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
    """Tell whether the tables lack a revision that this software needs.

    Tables that are newer do not: migrations only add.
    """
    found = get_version()
    known = {each.revision for each in _script().walk_revisions()}
    return found is None or (found in known and found != get_newest())


def find_differences() -> list[str]:
    """Compare the tables with what this software expects.

    :returns: what differs, one sentence each
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
