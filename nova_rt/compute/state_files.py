# SPDX-License-Identifier: Apache-2.0
"""Files in which nova-rt-compute keeps something over its restarts."""

import os
import pathlib
import urllib.parse


def find(state_path: str, kind: str, host: str) -> pathlib.Path:
    """Name a file of a host.

    :param state_path: Nova's
    :param kind: a word for its contents
    :param host: name of this host
    :returns: a file that two hosts of one directory do not share
    """
    name = urllib.parse.quote(host, safe='')
    return pathlib.Path(state_path) / 'nova_rt' / f'{kind}-{name}'


def replace(path: pathlib.Path, text: str, mode: int | None = None) -> None:
    """Write a file, of which a reader sees the old text or the new.

    After a power cut as well: without the first fsync(), file systems may
    keep the new name and lose the text.

    :param mode: its permissions; None for those of any new file
    :raises OSError: if that fails; the old text is there then
    """
    new = path.with_name(f'{path.name}.new')
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with new.open('w') as file:
        if mode is not None:
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
