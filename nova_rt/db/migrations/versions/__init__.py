# SPDX-License-Identifier: Apache-2.0
"""One module for each revision; a released one never changes.

No step may lock the samples table for long: add columns that may be NULL, and
tables. What needs more is made beside the old and filled in chunks.
"""
