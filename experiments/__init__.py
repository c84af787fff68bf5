# SPDX-License-Identifier: Apache-2.0
"""Experiments that hold nova_rt/model against a kernel."""
