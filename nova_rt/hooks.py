# SPDX-License-Identifier: Apache-2.0
"""Makes our driver loadable: Nova looks for drivers below nova.virt only."""

import os

import nova.virt

#: Value of ``[DEFAULT] compute_driver``: what Nova finds below nova.virt.
COMPUTE_DRIVER = 'nova_rt.RTLibvirtDriver'


def extend_nova_virt() -> None:
    """Let nova.virt also look into our directory for its submodules.

    Files are never put into Nova's own directories: an editable installation
    of Nova would no longer be found. ``nova.virt`` is an empty package, so
    that importing it early loads nothing.
    """
    directory = os.path.join(os.path.dirname(__file__), '_nova_virt')
    if directory not in nova.virt.__path__:
        nova.virt.__path__.append(directory)
