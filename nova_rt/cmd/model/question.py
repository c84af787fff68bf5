# SPDX-License-Identifier: Apache-2.0
"""What the commands have in common: one line for what has no answer."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from nova_rt import exception
from nova_rt.cmd.cli import base

#: Names of properties, and their values.
Answer = tuple[Sequence[str], Sequence[Any]]


class Question(base.ShowOne):
    """A command that answers, or says in one line why it cannot."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Tell wrong arguments in one line.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)

        def refuse(message: str) -> NoReturn:
            self.app.LOG.error('%s', message)
            raise SystemExit(2)

        parser.error = refuse  # type: ignore[method-assign]
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Answer:
        """Answer.

        :returns: properties and their values
        :raises CannotRun: if there is no answer
        """
        try:
            return self.answer(parsed_args)
        except (exception.Unanswerable, exception.InvalidRequest) as err:
            raise base.CannotRun(str(err)) from err

    def answer(self, given: argparse.Namespace) -> Answer:
        """Answer.

        :returns: properties and their values
        :raises Unanswerable: if there is no answer
        :raises InvalidRequest: if no cloud takes it
        """
        raise NotImplementedError
