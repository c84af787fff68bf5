# SPDX-License-Identifier: Apache-2.0
"""One module for each revision; a released one never changes.

No step may lock a table for long: add columns that may be NULL, and tables.
Anything else is made beside the old and filled in chunks.
"""
