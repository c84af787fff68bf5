# SPDX-License-Identifier: Apache-2.0
"""Tests on the control groups of the machine that runs them; as root.

They make groups of their own, with four hundredths of a CPU's bandwidth, and
remove them.
"""
