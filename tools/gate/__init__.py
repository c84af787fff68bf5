# SPDX-License-Identifier: Apache-2.0
"""The parts of ``make check`` and ``make check-full``, and their records."""
