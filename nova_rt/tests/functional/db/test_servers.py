# SPDX-License-Identifier: Apache-2.0
"""The unit tests of the database layer, on real servers."""

from nova_rt.tests.fixtures import database
from nova_rt.tests.unit.db import (
    test_reports,
    test_retention,
    test_samples,
    test_sums,
)


class _OnMariaDB:
    server_class = database.MariaDB


class _OnPostgreSQL:
    server_class = database.PostgreSQL


class MariaDBStateTest(_OnMariaDB, test_reports.StateTest):
    pass


class MariaDBEventTest(_OnMariaDB, test_reports.EventTest):
    pass


class MariaDBSamplesTest(_OnMariaDB, test_samples.SamplesTest):
    pass


class MariaDBSumTest(_OnMariaDB, test_sums.SumTest):
    pass


class MariaDBPurgeTest(_OnMariaDB, test_retention.PurgeTest):
    pass


class PostgreSQLStateTest(_OnPostgreSQL, test_reports.StateTest):
    pass


class PostgreSQLEventTest(_OnPostgreSQL, test_reports.EventTest):
    pass


class PostgreSQLSamplesTest(_OnPostgreSQL, test_samples.SamplesTest):
    pass


class PostgreSQLSumTest(_OnPostgreSQL, test_sums.SumTest):
    pass


class PostgreSQLPurgeTest(_OnPostgreSQL, test_retention.PurgeTest):
    pass
