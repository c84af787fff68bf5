# SPDX-License-Identifier: Apache-2.0
"""The record of a reservation, with the values of all extra specs.

The columns of the same values stay for conductors of the version before.
"""

import sqlalchemy as sa

from nova_rt.db.migrations import steps

revision = '003'
down_revision = '002'


def upgrade() -> None:
    """Make it; goes on where it was interrupted."""
    # NULL in what conductors of the version before write.
    steps.add_column('reservations', sa.Column('record', sa.String(255)))
