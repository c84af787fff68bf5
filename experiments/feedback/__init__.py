# SPDX-License-Identifier: Apache-2.0
"""Reservations that follow a load, on a simulated service."""
