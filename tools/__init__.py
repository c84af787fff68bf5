# SPDX-License-Identifier: Apache-2.0
"""Programs of the checkout that are not installed."""
