# SPDX-License-Identifier: Apache-2.0
"""Checks of this project's own rules, loaded by flake8 (see tox.ini)."""
