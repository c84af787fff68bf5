# SPDX-License-Identifier: Apache-2.0
"""Answers when a budget is used up, with spare bandwidth and without."""
