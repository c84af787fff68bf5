# SPDX-License-Identifier: Apache-2.0
"""What the APIs accept, refuse and report."""
