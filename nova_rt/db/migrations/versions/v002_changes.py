# SPDX-License-Identifier: Apache-2.0
"""The changes of running reservations."""

from alembic import op
import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '002'
down_revision = '001'


def upgrade() -> None:
    """Make the table; goes on where it was interrupted."""
    op.create_table(
        'changes',
        sa.Column('server', sa.String(36), nullable=False),
        sa.Column('generation', sa.BigInteger(), nullable=False),
        sa.Column('runtime_us', sa.BigInteger(), nullable=False),
        sa.Column('period_us', sa.BigInteger(), nullable=False),
        sa.Column('flavor', sa.BigInteger(), nullable=False),
        sa.Column('on_no_room', sa.String(16), nullable=False),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('asked_at', sa.BigInteger(), nullable=False),
        sa.Column('since', sa.BigInteger(), nullable=False),
        sa.Column('due_at', sa.BigInteger()),
        sa.Column('state', sa.String(16), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('asked_ppm', sa.BigInteger(), nullable=False),
        sa.Column('free_ppm', sa.BigInteger(), nullable=False),
        sa.Column('rule', sa.Text(), nullable=False),
        sa.Column('actual', sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint('server'),
        mysql_charset='utf8mb4',
        mysql_engine='InnoDB',
        if_not_exists=True,
    )
    steps.create_index('ix_changes_due_at', 'changes', ['due_at'])
    steps.create_index('ix_changes_host', 'changes', ['host', 'state'])
