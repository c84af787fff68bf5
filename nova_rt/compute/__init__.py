# SPDX-License-Identifier: Apache-2.0
"""nova-compute's manager and resource tracker, with reservations."""
