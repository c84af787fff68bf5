# SPDX-License-Identifier: Apache-2.0
"""Requests for reservations: extra specs, hints, bounds and resources."""
