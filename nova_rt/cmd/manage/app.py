# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-manage``: what an operator asks about reservations.

The commands are the entry points of group ``nova_rt.manage``.
"""

import argparse
from importlib import metadata
import logging
import sys
from typing import Any

from cliff import app, commandmanager
from oslo_config import cfg

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd.manage import terminal

COMMANDS = 'nova_rt.manage'
PROG = 'nova-rt-manage'

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


class App(app.App):
    """The program.

    :ivar conf: the configuration, with the options of nova_rt; a command may
        register others
    """

    NAME = PROG

    def __init__(
        self,
        conf: cfg.ConfigOpts | None = None,
        command_manager: commandmanager.CommandManager | None = None,
        **streams: Any,
    ) -> None:
        """Make it ready to :meth:`run`.

        :param conf: a configuration that is parsed already; None for that of
            the process, which is then parsed
        :param command_manager: the commands; None for those of the package
        :param streams: ``stdin``, ``stdout``, ``stderr``
        """
        self._parsed = conf is not None
        # Nova knows no other than the global one.
        self.conf = cfg.CONF if conf is None else conf
        super().__init__(
            description='Real-time reservations: hosts, servers, flavors, '
            'the database.',
            version=metadata.version('nova_rt'),
            command_manager=command_manager
            or commandmanager.CommandManager(COMMANDS),
            # Otherwise --help behind a command would be ours, not its own.
            deferred_help=True,
            **streams,
        )

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Add the options of every OpenStack service.

        :returns: the parser of what stands before the command
        """
        parser = super().build_option_parser(
            description, version, argparse_kwargs
        )
        parser.prog = self.NAME
        parser.add_argument(
            '--config-file',
            action='append',
            metavar='PATH',
            default=[],
            help='A configuration file to read; can be repeated. Default: '
            'nova.conf, where it is usually found.',
        )
        parser.add_argument(
            '--config-dir',
            action='append',
            metavar='DIR',
            default=[],
            help='A directory whose .conf files are read after them; can be '
            'repeated.',
        )
        return parser

    def configure_logging(self) -> None:
        """Log to stderr: warnings, with ``-v`` more, with ``-q`` less."""
        level = min(self.options.verbose_level, len(_LEVELS) - 1)
        console = logging.StreamHandler(self.stderr)
        console.setLevel(_LEVELS[level])
        console.setFormatter(_Escaping(self.CONSOLE_MESSAGE_FORMAT))
        handlers: list[logging.Handler] = [console]
        if self.options.log_file:
            handlers.append(logging.FileHandler(self.options.log_file))
            handlers[-1].setFormatter(_Escaping(self.LOG_FILE_MESSAGE_FORMAT))
        root = logging.getLogger()
        for handler in handlers:
            root.addHandler(handler)
        self._handlers = handlers
        if not self._parsed:
            # What the handlers let through decides.
            root.setLevel(logging.DEBUG)

    def initialize_app(self, argv: list[str]) -> None:
        """Read the configuration.

        :param argv: the command and what follows it
        """
        if self.options.deferred_help:
            return
        if not argv:
            # Not cliff's own shell: no command here is for that.
            self.parser.print_usage(self.stderr)
            print(f'{PROG}: which command? See {PROG} --help',
                  file=self.stderr)  # fmt: skip
            raise SystemExit(2)
        if argv[0] == 'help':
            return
        nova_rt_conf.register_opts(self.conf)
        if self._parsed:
            return
        args = [f'--config-file={path}' for path in self.options.config_file]
        args += [f'--config-dir={path}' for path in self.options.config_dir]
        try:
            self.conf(args, project='nova', prog=PROG)
        except cfg.Error as err:
            self.LOG.error('%s', err)
            raise SystemExit(2) from err

    def clean_up(
        self, cmd: Any, result: int, err: BaseException | None
    ) -> None:
        """Take our handlers away: tests run many programs in one process."""
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    :param argv: its arguments; None for those of the process
    :returns: the exit code
    """
    return App().run(sys.argv[1:] if argv is None else argv)


if __name__ == '__main__':
    sys.exit(main())
