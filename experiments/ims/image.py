# SPDX-License-Identifier: Apache-2.0
"""The image with Kamailio, MariaDB and SIPp, built if it is missing."""

import pathlib
import subprocess

from lab import paths

_HERE = pathlib.Path(__file__).parent
_IMAGES = paths.IMAGES / 'ims'
#: The same tree as in the image.
ROOT = _IMAGES / 'root'


def build() -> pathlib.Path:
    """Build it if it is missing.

    :returns: the image
    """
    image = _IMAGES / 'ims.img'
    if not image.exists():
        subprocess.run([_HERE / 'image.sh', _IMAGES], check=True)
    return image
