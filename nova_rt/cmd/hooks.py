# SPDX-License-Identifier: Apache-2.0
"""Makes our driver loadable: Nova looks for drivers below nova.virt only."""

import pathlib

import nova.virt

import nova_rt


def extend_nova_virt() -> None:
    """Make nova.virt look into our directory for its submodules, too.

    Files are never put into Nova's own directories: an editable installation
    of Nova would no longer be found. ``nova.virt`` is an empty package, so
    that importing it early loads nothing.
    """
    directory = str(pathlib.Path(nova_rt.__file__).parent / '_nova_virt')
    if directory not in nova.virt.__path__:
        nova.virt.__path__.append(directory)
