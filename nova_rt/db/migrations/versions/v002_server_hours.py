# SPDX-License-Identifier: Apache-2.0
"""Hours of servers in place of samples; receipt and origin of events.

The tables of samples stay for conductors of the version before.
"""

from alembic import op
import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '002'
down_revision = '001'


def upgrade() -> None:
    """Make them; goes on where it was interrupted."""
    op.create_table(
        'server_hours',
        sa.Column(
            'server_id', sa.Integer(), autoincrement=False, nullable=False
        ),
        sa.Column('hour', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            'host_id', sa.Integer(), autoincrement=False, nullable=False
        ),
        sa.Column(
            'meter', sa.BigInteger(), autoincrement=False, nullable=False
        ),
        sa.Column('reserved_us', sa.BigInteger(), nullable=False),
        sa.Column('used_us', sa.BigInteger(), nullable=True),
        sa.Column('periods', sa.BigInteger(), nullable=True),
        sa.Column('throttled', sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint('server_id', 'hour', 'host_id', 'meter'),
        if_not_exists=True,
        mysql_charset='utf8mb4',
        mysql_engine='InnoDB',
    )
    steps.create_index('ix_server_hours_hour', 'server_hours', ['hour'])
    # NULL in what conductors of the version before write.
    steps.add_column('history', sa.Column('received_at', sa.BigInteger()))
    for name in ('request_id', 'user_id', 'project_id'):
        steps.add_column('history', sa.Column(name, sa.String(64)))
    steps.create_index('ix_history_received_at', 'history', ['received_at'])
