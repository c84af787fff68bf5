# SPDX-License-Identifier: Apache-2.0
"""Texts and values that go from one program to another."""
