# SPDX-License-Identifier: Apache-2.0
"""The host: what its kernel offers, and the reservations it holds."""
