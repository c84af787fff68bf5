# SPDX-License-Identifier: Apache-2.0
"""Files in which nova-rt-compute keeps something over its restarts."""

import os
import pathlib


def replace(path: pathlib.Path, text: str, mode: int) -> None:
    """Write a file, of which a reader sees the old text or the new.

    After a power cut as well: without the first fsync(), file systems may
    keep the new name and lose the text.

    :param mode: its permissions
    :raises OSError: if that fails; the old text is there then
    """
    new = path.with_name(f'{path.name}.new')
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with new.open('w') as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
