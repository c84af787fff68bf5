# SPDX-License-Identifier: Apache-2.0
"""One Linux host: what its kernel offers, and the reservations it holds.

Nothing here knows Nova or a configuration file: who has them passes plain
values down.
"""
