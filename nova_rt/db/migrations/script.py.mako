# SPDX-License-Identifier: Apache-2.0
"""${message}."""

from alembic import op
import sqlalchemy as sa

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Make the change; it may have been interrupted before."""
    ${upgrades if upgrades else "pass"}
