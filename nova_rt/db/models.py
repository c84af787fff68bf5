# SPDX-License-Identifier: Apache-2.0
"""The tables of the database.

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


# SQLite numbers rows by itself in columns of type INTEGER alone.
_BIG_ID = sa.BigInteger().with_variant(sa.Integer, 'sqlite')


class HostRow(Base):
    """A compute host. Where the last report stands in the order of reports.

    All but the name is unknown (NULL) until its first state has come.
    """

    __tablename__ = 'hosts'

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(255), unique=True)
    interface: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    enforcement: orm.Mapped[str | None] = orm.mapped_column(sa.String(16))
    scope: orm.Mapped[str | None] = orm.mapped_column(sa.String(16))
    #: Capacity and what is reserved, where the kernel sums over the host.
    host_ppm: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    host_reserved_ppm: orm.Mapped[int | None] = orm.mapped_column(
        sa.BigInteger
    )
    version: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    last_report_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(
        Time
    )
    #: Start of the compute service that reports, and its last state.
    epoch: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    state_seq: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    #: The last event that the last state has in it.
    state_event_seq: orm.Mapped[int] = orm.mapped_column(
        sa.BigInteger, default=0
    )
    #: All events up to this one are here or were lost.
    event_epoch: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    event_seq: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    repairs: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    refusals: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)
    lost_events: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, default=0)

    __table_args__ = {
        'mysql_engine': 'InnoDB',
        'mysql_charset': 'utf8mb4',
    }


class HostCPURow(Base):
    """The bandwidth that a CPU of a host can promise, and has promised."""

    __tablename__ = 'host_cpus'

    host_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey('hosts.id', ondelete='CASCADE'), primary_key=True
    )
    cpu: orm.Mapped[int] = orm.mapped_column(
        sa.Integer, primary_key=True, autoincrement=False
    )
    capacity_ppm: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    reserved_ppm: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)

    __table_args__ = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}


class ServerRow(Base):
    """A server that has or had a reservation: a short number for its UUID."""

    __tablename__ = 'servers'

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    uuid: orm.Mapped[str] = orm.mapped_column(sa.String(36), unique=True)

    __table_args__ = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}


class ReservationRow(Base):
    """The reservation that a server holds on a host, or held there last.

    One row for each host: reports of different hosts have no common order,
    and during a move both hosts hold bandwidth.
    """

    __tablename__ = 'reservations'

    server_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey('servers.id', ondelete='CASCADE'), primary_key=True
    )
    host_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey('hosts.id', ondelete='CASCADE'), primary_key=True
    )
    runtime_us: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    period_us: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    ppm: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    vcpus: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    #: A list such as 1-2,7.
    cpus: orm.Mapped[str] = orm.mapped_column(sa.Text)
    enforcement: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    policy: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    priority: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    #: All of the above, and more: :mod:`nova_rt.reservation.record`. NULL in
    #: what conductors of the version before write; what they change is above
    #: alone.
    record: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    state: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    since: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)

    __table_args__ = (
        # What a host's servers hold now, among all that ever did.
        sa.Index('ix_reservations_host_id', 'host_id', 'state'),
        {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'},
    )


class HistoryRow(Base):
    """One event of a server's reservation."""

    __tablename__ = 'history'

    id: orm.Mapped[int] = orm.mapped_column(_BIG_ID, primary_key=True)
    server_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey('servers.id', ondelete='CASCADE')
    )
    host_id: orm.Mapped[int] = orm.mapped_column(
        sa.ForeignKey('hosts.id', ondelete='CASCADE')
    )
    epoch: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    seq: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    #: By the clock of the host.
    at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time, index=True)
    #: By the clock of the conductor. NULL: see ``at``.
    received_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(
        Time, index=True
    )
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    details: orm.Mapped[str] = orm.mapped_column(sa.Text)
    by: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    #: NULL in what conductors of the version before write, as the next two.
    request_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    user_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    project_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))

    __table_args__ = (
        # Whatever is reported twice is here once.
        sa.UniqueConstraint('host_id', 'epoch', 'seq', name='uniq_history'),
        sa.Index('ix_history_server_id', 'server_id', 'id'),
        {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'},
    )


class ServerHourRow(Base):
    """CPU time that a server held and used on a host in an hour.

    The key begins with what is read together: InnoDB stores rows in its
    order, so that one server's hours lie side by side. There is no foreign
    key: that of a host would need an index of its own.
    """

    __tablename__ = 'server_hours'

    server_id: orm.Mapped[int] = orm.mapped_column(
        primary_key=True, autoincrement=False
    )
    #: Hours since 1970.
    hour: orm.Mapped[int] = orm.mapped_column(
        sa.Integer, primary_key=True, autoincrement=False, index=True
    )
    host_id: orm.Mapped[int] = orm.mapped_column(
        primary_key=True, autoincrement=False
    )
    #: A compute service that has lost its file begins another.
    meter: orm.Mapped[int] = orm.mapped_column(
        sa.BigInteger, primary_key=True, autoincrement=False
    )
    reserved_us: orm.Mapped[int] = orm.mapped_column(sa.BigInteger)
    #: NULL where the kernel does not count it, as the next two.
    used_us: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    periods: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)
    throttled: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger)

    __table_args__ = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}


#: Tables of revision 001 that nothing uses any more. They stay for conductors
#: of the version before; a later revision drops them.
RETIRED = frozenset({'samples', 'host_samples', 'progress'})
