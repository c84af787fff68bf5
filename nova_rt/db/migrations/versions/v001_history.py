# SPDX-License-Identifier: Apache-2.0
"""The history of reservations."""

from alembic import op
import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '001'
down_revision = None


def upgrade() -> None:
    """Make the table; goes on where it was interrupted."""
    op.create_table(
        'history',
        sa.Column(
            'id',
            sa.BigInteger().with_variant(sa.Integer(), 'sqlite'),
            nullable=False,
        ),
        sa.Column('message_id', sa.String(36), nullable=False),
        sa.Column('server', sa.String(36), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.Column('received_at', sa.BigInteger(), nullable=False),
        sa.Column('kind', sa.String(32), nullable=False),
        sa.Column('details', sa.Text(), nullable=False),
        sa.Column('runtime_us', sa.BigInteger()),
        sa.Column('period_us', sa.BigInteger()),
        sa.Column('cpus', sa.Text()),
        sa.Column('request_id', sa.String(64), nullable=False),
        sa.Column('user_id', sa.String(64), nullable=False),
        sa.Column('project_id', sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint('id'),
        sa.UniqueConstraint('message_id', name='uniq_history'),
        mysql_charset='utf8mb4',
        mysql_engine='InnoDB',
        # MariaDB keeps the table that a failed migration has made.
        if_not_exists=True,
    )
    steps.create_index('ix_history_server', 'history', ['server', 'at'])
    steps.create_index('ix_history_received_at', 'history', ['received_at'])
