# SPDX-License-Identifier: Apache-2.0
"""``systemctl`` for the lab: starts and stops its services by their names.

The lab has no systemd, so the commands of a manual page run this program
instead: while a page is followed, it is called ``systemctl``.
"""

import argparse
import pathlib
import sys
import time

from lab import catalog, cloud, second, second_services, services, setup_steps
from lab.console import LabError
from lab.edition import Edition
from lab.service import Service
from tools.install.commands import RUN

#: File with the prefix of the nova_rt that the services run; without it they
#: run that of the lab's venv.
PREFIX = RUN / 'runbooks.prefix'
_REGISTER_S = 300


def main(words: list[str]) -> int:
    """Do as systemctl does, and switch on a second compute that is off.

    :returns: the exit code
    """
    parser = argparse.ArgumentParser(prog='systemctl')
    parser.add_argument('-H', '--host')
    parser.add_argument('action', choices=('start', 'stop', 'restart'))
    parser.add_argument('names', nargs='+')
    options = parser.parse_args(words)
    names = options.names
    on_second = options.host == second.HOST
    if on_second:
        names = [second_services.name(name) for name in names]
        if second.holder() is None:
            cloud.boot_inside(without=names)
    for name in names:
        service = _find(name)
        if options.action in ('stop', 'restart'):
            service.stop()
        if options.action in ('start', 'restart'):
            service.ensure()
    # Its unit says Type=notify: it is started once it serves.
    if 'nova-compute' in options.names and options.action != 'stop':
        if on_second:
            _await_second()
        else:
            setup_steps.hosts()
    return 0


def _await_second() -> None:
    """Wait for the second nova-compute, which may be declared dead."""
    name = second_services.name('nova-compute')
    found = services.table()[name]
    connection = catalog.connect()
    deadline = time.monotonic() + _REGISTER_S
    while True:
        running = found.running()
        if not running:
            raise LabError(f'{name} ended', found.log)
        if catalog.reporting(
            connection, 'nova-compute', second.HOST, running.since(),
            forced_down=True,
        ):  # fmt: skip
            return
        if time.monotonic() > deadline:
            raise LabError(
                f'{name} has not reported itself after {_REGISTER_S} s',
                found.log,
            )
        time.sleep(0.3)


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
