# SPDX-License-Identifier: Apache-2.0
"""Commands of the OpenStack client for the reservations of nova_rt."""
