# SPDX-License-Identifier: Apache-2.0
"""A reservation: its request, its record, and the CPUs that it fits on."""
