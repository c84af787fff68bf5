# SPDX-License-Identifier: Apache-2.0
"""Measuring the lab's containers, from outside: as users, and as the kernel.

These modules run in the lab's namespaces.
"""
