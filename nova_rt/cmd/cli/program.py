# SPDX-License-Identifier: Apache-2.0
"""A program with commands: logging and usage."""

import argparse
from importlib import metadata
import logging
from typing import Any

from cliff import app, commandmanager, help

from nova_rt.cmd.cli import base, terminal

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


class _Escaping(logging.Formatter):
    """Formats a message as one line that is fit for a terminal.

    The message of an error may quote anything, line feeds included.
    """

    def format(self, record: logging.LogRecord) -> str:
        escaped = logging.makeLogRecord(record.__dict__)
        escaped.msg, escaped.args = terminal.escape(record.getMessage()), None
        # Other handlers leave theirs there.
        escaped.exc_text = None
        return super().format(escaped)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).splitlines()
        return '\n'.join(map(terminal.escape, lines))


class _Help(base.ExitCodes, help.HelpCommand):
    """print detailed help for another command"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().take_action(parsed_args)
        except ValueError as err:
            raise base.CannotRun(str(err)) from err


class Program(app.App):
    """A program with entry points as commands.

    :cvar NAME: the program's name
    :cvar DESCRIPTION: for ``--help``
    :cvar COMMANDS: group of entry points
    """

    DESCRIPTION: str
    COMMANDS: str

    def __init__(
        self,
        command_manager: commandmanager.CommandManager | None = None,
        alone: bool = True,
        **streams: Any,
    ) -> None:
        """Make it ready to :meth:`run`.

        :param command_manager: the commands; None for those of the package
        :param alone: nothing else in this process has a say in logging
        :param streams: ``stdin``, ``stdout``, ``stderr``
        """
        self._alone = alone
        super().__init__(
            description=self.DESCRIPTION,
            version=metadata.version('nova_rt'),
            command_manager=command_manager
            or commandmanager.CommandManager(self.COMMANDS),
            # Otherwise --help behind a command would be ours, not its own.
            deferred_help=True,
            **streams,
        )
        # cliff's own ends with 1 if there is no such command.
        self.command_manager.add_command('help', _Help)

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Name the program as users do.

        :returns: the parser of the options before the command
        """
        parser = super().build_option_parser(
            description, version, argparse_kwargs
        )
        parser.prog = self.NAME
        return parser

    def configure_logging(self) -> None:
        """Log to stderr: warnings, with ``-v`` more, with ``-q`` less."""
        level = min(self.options.verbose_level, len(_LEVELS) - 1)
        console = logging.StreamHandler(self.stderr)
        console.setLevel(_LEVELS[level])
        console.setFormatter(_Escaping(self.CONSOLE_MESSAGE_FORMAT))
        handlers: list[logging.Handler] = [console]
        if self.options.log_file:
            handlers.append(self._log_file(self.options.log_file))
            handlers[-1].setFormatter(_Escaping(self.LOG_FILE_MESSAGE_FORMAT))
        root = logging.getLogger()
        for handler in handlers:
            root.addHandler(handler)
        self._handlers = handlers
        if self._alone:
            # What the handlers let through decides.
            root.setLevel(logging.DEBUG)

    def _log_file(self, path: str) -> logging.Handler:
        try:
            return logging.FileHandler(path)
        except OSError as err:
            print(
                f'{self.NAME}: {terminal.escape(path)} cannot be written: '
                f'{err.strerror}',
                file=self.stderr,
            )
            raise SystemExit(2) from err

    def initialize_app(self, argv: list[str]) -> None:
        """Refuse to run without a command.

        :param argv: the command and its arguments
        """
        if not argv and not self.options.deferred_help:
            # Not cliff's own shell: no command here is for that.
            print(f'{self.NAME}: which command? See {self.NAME} --help',
                  file=self.stderr)  # fmt: skip
            raise SystemExit(2)

    def clean_up(
        self, cmd: Any, result: int, err: BaseException | None
    ) -> None:
        """Take our handlers away: tests run many programs in one process."""
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
