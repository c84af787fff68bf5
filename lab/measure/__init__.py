# SPDX-License-Identifier: Apache-2.0
"""Measuring the lab's containers, from outside: as users, and as the kernel.

What is here runs in the lab's namespaces.
"""
