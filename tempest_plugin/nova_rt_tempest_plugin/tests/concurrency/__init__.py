# SPDX-License-Identifier: Apache-2.0
"""Many servers at the same time."""
