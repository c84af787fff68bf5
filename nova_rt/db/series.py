# SPDX-License-Identifier: Apache-2.0
"""The tables of samples: what each is of, and what is summed up in it."""

from collections.abc import Iterator
import dataclasses
from typing import Any

import sqlalchemy as sa

from nova_rt.db import models
from nova_rt.db.objects import Resolution
from nova_rt.db.session import reader

#: Servers or hosts of one statement.
OWNERS = 50


@dataclasses.dataclass(frozen=True)
class Series:
    """A table of samples.

    :ivar owners: the table of what the samples are of
    """

    table: sa.Table
    owners: sa.Table

    @property
    def owner(self) -> sa.Column[Any]:
        """The column that says what a sample is of."""
        return self.table.c[0]

    @property
    def values(self) -> list[sa.Column[Any]]:
        """The columns that are summed up."""
        keys = list(self.table.primary_key)
        return [each for each in self.table.c if each not in keys]

    def of(
        self, owners: Any, resolution: Resolution, begin_us: int, end_us: int
    ) -> sa.ColumnElement[bool]:
        """Build the condition for one range of the primary key for each."""
        return sa.and_(
            self.owner.in_(owners),
            self.table.c.resolution_s == resolution.seconds,
            self.table.c.at_us >= begin_us,
            self.table.c.at_us < end_us,
        )

    def job(self, resolution: Resolution) -> str:
        """The name under which progress is kept."""
        return f'{self.table.name} {resolution}'

    def iterate_owners(self) -> Iterator[list[int]]:
        """All numbers of servers or hosts, some at a time."""
        last = 0
        while True:
            query = (
                sa.select(self.owners.c.id)
                .where(self.owners.c.id > last)
                .order_by(self.owners.c.id)
                .limit(OWNERS)
            )
            with reader() as session:
                found = list(session.scalars(query))
            if not found:
                return
            yield found
            last = found[-1]


def _table(model: type[models.Base]) -> sa.Table:
    table = model.__table__
    assert isinstance(table, sa.Table)
    return table


SERVERS = Series(_table(models.Sample), _table(models.Server))
HOSTS = Series(_table(models.HostSample), _table(models.Host))
