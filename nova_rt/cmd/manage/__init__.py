# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-manage``: one module for each group of commands."""
