# SPDX-License-Identifier: Apache-2.0
"""Nova's own unit tests, run on our subclasses of Nova's classes."""
