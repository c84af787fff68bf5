# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-model``: the size of a reservation, and its response times.

The commands are the entry points of group ``nova_rt.model``.
"""

import sys

from nova_rt.cmd.cli import program


class App(program.Program):
    """The program."""

    NAME = 'nova-rt-model'
    COMMANDS = 'nova_rt.model'
    DESCRIPTION = (
        'From what a service needs to a reservation, and back. Asks no cloud.'
    )

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Refuse an unknown command in one line.

        :returns: nothing: there are few commands, and --help lists them
        """
        return []


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    :param argv: its arguments; None for those of the process
    :returns: the exit code
    """
    return App().run(sys.argv[1:] if argv is None else argv)


if __name__ == '__main__':
    sys.exit(main())
