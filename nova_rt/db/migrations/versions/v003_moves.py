# SPDX-License-Identifier: Apache-2.0
"""The moves of servers for changes of their reservations."""

import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '003'
down_revision = '002'


def upgrade() -> None:
    """Add the columns; goes on where it was interrupted."""
    for name in ('moved_after', 'moved_by'):
        steps.add_column('changes', sa.Column(name, sa.String(255)))
