# SPDX-License-Identifier: Apache-2.0
"""Steps of migrations that may be taken twice.

MariaDB keeps the tables of a failed migration, so the next run meets it.
"""

from typing import Any

from alembic import op
import sqlalchemy as sa


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column unless it is there."""
    there = sa.inspect(op.get_bind()).get_columns(table)
    if column.name not in {found['name'] for found in there}:
        op.add_column(table, column)


def create_index(name: str, table: str, columns: list[str]) -> None:
    """Create an index unless it is there: MySQL has no IF NOT EXISTS."""
    there = sa.inspect(op.get_bind()).get_indexes(table)
    if name not in {index['name'] for index in there}:
        op.create_index(name, table, columns)
