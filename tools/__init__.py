# SPDX-License-Identifier: Apache-2.0
"""Programs of the checkout that are no part of what is installed."""
