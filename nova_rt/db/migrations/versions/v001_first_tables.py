# SPDX-License-Identifier: Apache-2.0
"""The first tables."""

from typing import Any

from alembic import op
import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '001'
down_revision = None

# Also goes on where it was interrupted: MariaDB keeps the tables that a failed
# migration has made.
_TABLE: dict[str, Any] = {
    'mysql_charset': 'utf8mb4',
    'mysql_engine': 'InnoDB',
    'if_not_exists': True,
}


def upgrade() -> None:
    """Make them."""
    op.create_table(
        'host_samples',
        sa.Column(
            'host_id', sa.Integer(), autoincrement=False, nullable=False
        ),
        sa.Column(
            'resolution_s',
            sa.SmallInteger(),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            'at_us', sa.BigInteger(), autoincrement=False, nullable=False
        ),
        sa.Column('cpu', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('span_us', sa.BigInteger(), nullable=False),
        sa.Column('capacity_us', sa.BigInteger(), nullable=False),
        sa.Column('reserved_us', sa.BigInteger(), nullable=False),
        sa.Column('used_us', sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint('host_id', 'resolution_s', 'at_us', 'cpu'),
        **_TABLE,
    )
    op.create_table(
        'hosts',
        sa.Column('id', sa.Integer(), nullable=False),
        sa.Column('name', sa.String(length=255), nullable=False),
        sa.Column('interface', sa.String(length=64), nullable=True),
        sa.Column('enforcement', sa.String(length=16), nullable=True),
        sa.Column('scope', sa.String(length=16), nullable=True),
        sa.Column('host_ppm', sa.BigInteger(), nullable=True),
        sa.Column('host_reserved_ppm', sa.BigInteger(), nullable=True),
        sa.Column('version', sa.String(length=64), nullable=True),
        sa.Column('last_report_at', sa.BigInteger(), nullable=True),
        sa.Column('epoch', sa.BigInteger(), nullable=False),
        sa.Column('state_seq', sa.BigInteger(), nullable=False),
        sa.Column('state_event_seq', sa.BigInteger(), nullable=False),
        sa.Column('event_epoch', sa.BigInteger(), nullable=False),
        sa.Column('event_seq', sa.BigInteger(), nullable=False),
        sa.Column('repairs', sa.BigInteger(), nullable=False),
        sa.Column('refusals', sa.BigInteger(), nullable=False),
        sa.Column('lost_events', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id'),
        sa.UniqueConstraint('name'),
        **_TABLE,
    )
    op.create_table(
        'progress',
        sa.Column('job', sa.String(length=32), nullable=False),
        sa.Column('done_us', sa.BigInteger(), nullable=False),
        sa.Column('leased_until', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('job'),
        **_TABLE,
    )
    op.create_table(
        'samples',
        sa.Column(
            'server_id', sa.Integer(), autoincrement=False, nullable=False
        ),
        sa.Column(
            'resolution_s',
            sa.SmallInteger(),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            'at_us', sa.BigInteger(), autoincrement=False, nullable=False
        ),
        sa.Column('cpu', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('span_us', sa.BigInteger(), nullable=False),
        sa.Column('reserved_us', sa.BigInteger(), nullable=False),
        sa.Column('used_us', sa.BigInteger(), nullable=True),
        sa.Column('periods', sa.BigInteger(), nullable=True),
        sa.Column('throttled', sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint('server_id', 'resolution_s', 'at_us', 'cpu'),
        **_TABLE,
    )
    op.create_table(
        'servers',
        sa.Column('id', sa.Integer(), nullable=False),
        sa.Column('uuid', sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint('id'),
        sa.UniqueConstraint('uuid'),
        **_TABLE,
    )
    op.create_table(
        'history',
        sa.Column(
            'id',
            sa.BigInteger().with_variant(sa.Integer(), 'sqlite'),
            nullable=False,
        ),
        sa.Column('server_id', sa.Integer(), nullable=False),
        sa.Column('host_id', sa.Integer(), nullable=False),
        sa.Column('epoch', sa.BigInteger(), nullable=False),
        sa.Column('seq', sa.BigInteger(), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.Column('kind', sa.String(length=32), nullable=False),
        sa.Column('details', sa.Text(), nullable=False),
        sa.Column('by', sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(['host_id'], ['hosts.id'], ondelete='CASCADE'),
        sa.ForeignKeyConstraint(
            ['server_id'], ['servers.id'], ondelete='CASCADE'
        ),
        sa.PrimaryKeyConstraint('id'),
        sa.UniqueConstraint('host_id', 'epoch', 'seq', name='uniq_history'),
        **_TABLE,
    )
    steps.create_index('ix_history_at', 'history', ['at'])
    steps.create_index('ix_history_server_id', 'history', ['server_id', 'id'])
    op.create_table(
        'host_cpus',
        sa.Column('host_id', sa.Integer(), nullable=False),
        sa.Column('cpu', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('capacity_ppm', sa.BigInteger(), nullable=False),
        sa.Column('reserved_ppm', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['host_id'], ['hosts.id'], ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('host_id', 'cpu'),
        **_TABLE,
    )
    op.create_table(
        'reservations',
        sa.Column('server_id', sa.Integer(), nullable=False),
        sa.Column('host_id', sa.Integer(), nullable=False),
        sa.Column('runtime_us', sa.BigInteger(), nullable=False),
        sa.Column('period_us', sa.BigInteger(), nullable=False),
        sa.Column('ppm', sa.BigInteger(), nullable=False),
        sa.Column('vcpus', sa.Integer(), nullable=False),
        sa.Column('cpus', sa.Text(), nullable=False),
        sa.Column('enforcement', sa.String(length=16), nullable=False),
        sa.Column('policy', sa.String(length=16), nullable=False),
        sa.Column('priority', sa.Integer(), nullable=False),
        sa.Column('state', sa.String(length=16), nullable=False),
        sa.Column('since', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['host_id'], ['hosts.id'], ondelete='CASCADE'),
        sa.ForeignKeyConstraint(
            ['server_id'], ['servers.id'], ondelete='CASCADE'
        ),
        sa.PrimaryKeyConstraint('server_id', 'host_id'),
        **_TABLE,
    )
    steps.create_index(
        'ix_reservations_host_id', 'reservations', ['host_id', 'state']
    )
