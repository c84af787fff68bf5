# SPDX-License-Identifier: Apache-2.0
"""The table of the database.

A change here takes a migration in ``migrations/versions``; a test compares
the two. Text that users choose (names of servers, projects, images) is in no
column.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from nova_rt.formats.times import from_us, to_us


class Time(sa.types.TypeDecorator[datetime.datetime]):
    """A point in time, as microseconds since 1970.

    Not DATETIME: MariaDB rounds it to seconds unless told otherwise, and each
    database has its own opinion of time zones.
    """

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> int | None:
        """Store a time."""
        return None if value is None else to_us(value)

    def process_result_value(
        self, value: Any, dialect: Any
    ) -> datetime.datetime | None:
        """Read a time."""
        return None if value is None else from_us(value)


class Base(orm.DeclarativeBase):
    """Base of all tables."""


class EventRow(Base):
    """One event of a server's reservation. Rows are added, never changed."""

    __tablename__ = 'history'

    # SQLite numbers rows by itself in columns of type INTEGER alone.
    id: orm.Mapped[int] = orm.mapped_column(
        sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True
    )
    #: Of the notification, which may be delivered more than once.
    message_id: orm.Mapped[str] = orm.mapped_column(sa.String(36))
    server: orm.Mapped[str] = orm.mapped_column(sa.String(36))
    host: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    #: By the clock of the host.
    at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    #: By the clock of the conductor.
    received_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    details: orm.Mapped[str] = orm.mapped_column(sa.Text)
    #: NULL if the event names no reservation, as the next two.
    runtime_us: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    period_us: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    #: A list such as 1-2,7.
    cpus: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    user_id: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    project_id: orm.Mapped[str] = orm.mapped_column(sa.String(64))

    __table_args__ = (
        sa.UniqueConstraint('message_id', name='uniq_history'),
        sa.Index('ix_history_server', 'server', 'at'),
        sa.Index('ix_history_received_at', 'received_at'),
        {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'},
    )


class ChangeRow(Base):
    """The last change of a server's reservation while it runs."""

    __tablename__ = 'changes'

    server: orm.Mapped[str] = orm.mapped_column(
        sa.String(36), primary_key=True
    )
    generation: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    runtime_us: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    period_us: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    #: Nova's number of it.
    flavor: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    on_no_room: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    host: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    asked_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    since: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    #: The time to ask the host again, in the past for a new change; NULL if it
    #: has ended.
    due_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    state: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    reason: orm.Mapped[str] = orm.mapped_column(sa.Text)
    asked_ppm: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    free_ppm: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    rule: orm.Mapped[str] = orm.mapped_column(sa.Text)
    actual: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    #: Request IDs of Nova; NULL unless the server is to move for this change.
    moved_after: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    moved_by: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))

    __table_args__ = (
        sa.Index('ix_changes_due_at', 'due_at'),
        sa.Index('ix_changes_host', 'host', 'state'),
        {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'},
    )
