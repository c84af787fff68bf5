# SPDX-License-Identifier: Apache-2.0
"""The papers' own load beside ours."""
