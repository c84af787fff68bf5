# SPDX-License-Identifier: Apache-2.0
"""The command line: ``python -m tools.install COMMAND``."""

import argparse
import importlib
import sys

from lab.console import LabError, say, tail
from tools.install.commands import RUN

#: Tests that can be run: the module of a command, and what it does. A module
#: has a LOG and a function ``command()`` that raises LabError.
COMMANDS = {
    'packages': 'build the Debian packages, install and purge them',
    'chapter': 'follow the installation chapter on a node in a container',
    'chapter-cloud': "follow the chapter's blocks for a cloud on the lab",
    'runbooks': 'follow the runbooks of the manual on the lab',
    'role': 'run the Ansible role twice on nodes in containers',
}


def main() -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog='python -m tools.install', description=__doc__
    )
    commands = parser.add_subparsers(metavar='COMMAND', required=True)
    for name, text in COMMANDS.items():
        added = commands.add_parser(name, description=text, help=text)
        added.set_defaults(module=name.replace('-', '_'))
    options = parser.parse_args()
    module = importlib.import_module(f'.{options.module}', __package__)
    RUN.mkdir(parents=True, exist_ok=True)
    module.LOG.unlink(missing_ok=True)
    try:
        module.command()
    except LabError as error:
        log = error.log or module.LOG
        print(f'--- the last lines of {log} ---', file=sys.stderr)
        print(f'{tail(log)}\n---\ninstall: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('install: interrupted', file=sys.stderr)
        return 130
    say('passed')
    return 0


if __name__ == '__main__':
    sys.exit(main())
