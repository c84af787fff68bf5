# SPDX-License-Identifier: Apache-2.0
"""Runs migrations on the connection that the caller opened."""

from alembic import context

from nova_rt.db import models

context.configure(
    connection=context.config.attributes['connection'],
    target_metadata=models.Base.metadata,
    # PostgreSQL and SQLite take a revision back if it fails; MariaDB cannot.
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
