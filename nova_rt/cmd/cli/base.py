# SPDX-License-Identifier: Apache-2.0
"""Common code of the commands: exit codes, and text fit for a terminal.

0: done, and all is well; 1: it failed, or found something wrong; 2: it was
called wrongly, or could not read its input.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cliff import command, lister, show

from nova_rt.cmd.cli import terminal

if TYPE_CHECKING:
    from oslo_config import cfg

#: Columns and rows of a table, or properties of one thing and their values.
Rows = tuple[Sequence[str], list[Sequence[Any]]]
Values = tuple[Sequence[str], Sequence[Any]]


class CommandFailed(Exception):
    """A command ends here, with one line for the user.

    :cvar exit_code: of the program
    """

    exit_code = 1


class CannotRun(CommandFailed):
    """The command was called wrongly or cannot read its input."""

    exit_code = 2


class ExitCodes(command.Command):
    """Ends with the exit code of a CommandFailed, or with its own.

    :ivar exit_code: set by :meth:`take_action`
    """

    exit_code = 0

    @property
    def conf(self) -> 'cfg.ConfigOpts':
        """The configuration of a program that has one."""
        program: Any = self.app
        conf: cfg.ConfigOpts = program.conf
        return conf

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Make the parser, with the arguments of :meth:`add_arguments`.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command, if it has any."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run it.

        :returns: the exit code
        """
        try:
            return super().run(parsed_args) or self.exit_code
        except CommandFailed as err:
            if self.app.options.debug:
                raise
            self.app.LOG.error('%s', err)
            return err.exit_code


class OfServer(ExitCodes):
    """A command with a server as its argument."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the server."""
        parser.add_argument('server', help='UUID of the server.')


def _escape(value: Any) -> Any:
    """Escape texts, also those in lists; numbers stay numbers."""
    if isinstance(value, str):
        return terminal.escape(value)
    if isinstance(value, list):
        return [_escape(each) for each in value]
    return value


class Command(ExitCodes):
    """A command that prints for itself, and escapes its output."""


class Lister(ExitCodes, lister.Lister):
    """A command that prints a table."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Print rows, escaped in every format.

        :returns: a status code
        """
        rows = (tuple(map(_escape, row)) for row in data)
        return super().produce_output(parsed_args, column_names, rows)


class ShowOne(ExitCodes, show.ShowOne):
    """A command that prints one thing, a line for each of its properties."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Any],
    ) -> int:
        """Print values, escaped in every format.

        :returns: a status code
        """
        return super().produce_output(
            parsed_args, column_names, tuple(map(_escape, data))
        )
