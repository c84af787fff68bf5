# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-manage``: questions of operators about reservations.

The commands are the entry points of group ``nova_rt.manage``.
"""

import argparse
import sys
from typing import Any

from cliff import commandmanager
from oslo_config import cfg

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import options
from nova_rt.cmd.cli import program

COMMANDS = 'nova_rt.manage'
PROG = 'nova-rt-manage'


class App(program.Program):
    """The program.

    :ivar conf: the configuration, with the options of nova_rt; a command may
        register others
    """

    NAME = PROG
    COMMANDS = COMMANDS
    DESCRIPTION = (
        'Real-time reservations: hosts, servers, flavors, the database.'
    )

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
        super().__init__(command_manager, alone=not self._parsed, **streams)

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Add the options of every OpenStack service.

        :returns: the parser of all options before the command
        """
        parser = super().build_option_parser(
            description, version, argparse_kwargs
        )
        parser.add_argument(
            '--config-file',
            action='append',
            metavar='PATH',
            default=[],
            help='A configuration file to read; can be repeated. Default: '
            'nova.conf and nova-rt-conductor.conf, where they are usually '
            'found.',
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

    def initialize_app(self, argv: list[str]) -> None:
        """Read the configuration.

        :param argv: the command and its arguments
        """
        super().initialize_app(argv)
        if self.options.deferred_help or argv[0] == 'help':
            return
        nova_rt_conf.register_opts(self.conf)
        if self._parsed:
            return
        args = [f'--config-file={path}' for path in self.options.config_file]
        args += [f'--config-dir={path}' for path in self.options.config_dir]
        try:
            with options.errors(self.conf):
                self.conf(
                    args,
                    project='nova',
                    prog=PROG,
                    default_config_files=options.find_files(PROG),
                )
        except options.Unusable as err:
            self.LOG.error('%s', err)
            raise SystemExit(2) from err


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    :param argv: its arguments; None for those of the process
    :returns: the exit code
    """
    return App().run(sys.argv[1:] if argv is None else argv)


if __name__ == '__main__':
    sys.exit(main())
