# SPDX-License-Identifier: Apache-2.0
"""What users and operators do with real-time servers."""
