# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests: real services, real containers, the kernel's own files.

They run in the lab's namespaces, one after the other, on a lab that is up.
"""
