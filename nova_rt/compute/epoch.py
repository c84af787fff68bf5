# SPDX-License-Identifier: Apache-2.0
"""Numbers the starts of this service, so that no order hangs on clocks.

Each start is an epoch, higher than the last, which a file keeps.
"""

import pathlib
import time

from oslo_log import log as logging

from nova_rt.compute import state_files

LOG = logging.getLogger(__name__)


class Epoch:
    """The number of this start of the service.

    :param path: file that keeps the last one
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        try:
            last = int(path.read_text())
        except FileNotFoundError:
            last = 0
        except (OSError, ValueError) as err:
            # The conductor knows the last one, too.
            LOG.warning('Cannot read %s: %s', path, err)
            last = 0
        self.number = 0
        self.raise_to(max(last + 1, int(time.time())))

    def raise_to(self, number: int) -> None:
        """Become another, higher epoch."""
        self.number = number
        try:
            state_files.replace(self._path, f'{number}\n')
        except OSError as err:
            LOG.warning('Cannot write %s: %s', self._path, err)


def epoch_path(state_path: str, host: str) -> pathlib.Path:
    """Name the file of an epoch.

    :param state_path: Nova's
    :param host: name of this host
    :returns: a file that two hosts of one directory do not share
    """
    return state_files.find(state_path, 'epoch', host)
