# SPDX-License-Identifier: Apache-2.0
"""Modules that appear below nova.virt (see nova_rt/cmd/hooks.py)."""
