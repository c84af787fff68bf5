# SPDX-License-Identifier: Apache-2.0
"""One Linux host: the bandwidth its kernel offers, and its reservations.

Nothing here knows Nova or a configuration file: callers pass plain values
down.
"""
