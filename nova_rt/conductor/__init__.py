# SPDX-License-Identifier: Apache-2.0
"""nova-rt-conductor: takes reports of computes into the database."""
