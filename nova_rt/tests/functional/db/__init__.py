# SPDX-License-Identifier: Apache-2.0
"""Tests of the database layer on MariaDB and PostgreSQL."""
