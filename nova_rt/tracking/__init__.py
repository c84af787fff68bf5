# SPDX-License-Identifier: Apache-2.0
"""The reservations of one host: records, claims and their events."""
