# SPDX-License-Identifier: Apache-2.0
"""``systemctl`` for the lab: starts and stops its services by their names.

The lab has no systemd, so the commands of a manual page run this program
instead: while a page is followed, it is what ``systemctl`` means.
"""

import pathlib
import sys

from lab import services, setup_steps
from lab.console import LabError
from lab.edition import Edition
from lab.service import Service
from tools.install.commands import RUN

#: File with the prefix of the nova_rt that the services run; without it they
#: run that of the lab's venv.
PREFIX = RUN / 'runbooks.prefix'


def main(words: list[str]) -> int:
    """Do as systemctl does.

    :returns: the exit code
    """
    action, *names = words
    for name in names:
        service = _find(name)
        if action in ('stop', 'restart'):
            service.stop()
        if action in ('start', 'restart'):
            service.ensure()
    # Its unit says Type=notify: it is started once it serves.
    if 'nova-compute' in names and action != 'stop':
        setup_steps.hosts()
    return 0


def _find(name: str) -> Service:
    found = services.table()[name]
    if not PREFIX.exists():
        return found
    return Edition(pathlib.Path(PREFIX.read_text()), '').put_in(found)


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        sys.exit(str(error))
