# SPDX-License-Identifier: Apache-2.0
"""What the programs with commands have in common."""
