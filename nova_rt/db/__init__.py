# SPDX-License-Identifier: Apache-2.0
"""The database for reading and reporting; nothing waits for it."""
