# SPDX-License-Identifier: Apache-2.0
"""Access to :mod:`nova_rt.once` for modules of the compute service."""

from nova_rt.once import Once as Once
