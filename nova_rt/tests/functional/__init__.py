# SPDX-License-Identifier: Apache-2.0
"""Tests on Nova's own services, all in one process, with a fake libvirt."""

# Before anything else: chooses between native and green threads.
import nova.tests.functional  # noqa: F401
