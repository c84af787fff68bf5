# SPDX-License-Identifier: Apache-2.0
"""nova-rt-conductor: takes events of reservations into the database."""
