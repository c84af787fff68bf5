# SPDX-License-Identifier: Apache-2.0
"""Common code of the commands: one line for a refusal."""

import abc
import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from nova_rt import exception
from nova_rt.cmd.cli import base

# Options of cliff that can be there several times.
_LISTS = {'columns', 'variables'}
_MESSAGE = 400


class Question(base.ShowOne):
    """A command that answers, or says in one line why it cannot.

    :cvar ON_DEMAND: properties that a table has only if they are asked for
    """

    ON_DEMAND: frozenset[str] = frozenset()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Refuse wrong arguments in one line.

        :returns: the parser
        """
        parser = super().get_parser(prog_name)

        def refuse(message: str) -> NoReturn:
            # It quotes what was given, however long that is.
            shown = message[:_MESSAGE] + '...' * (len(message) > _MESSAGE)
            self.app.LOG.error('%s', shown)
            raise SystemExit(2)

        parser.error = refuse  # type: ignore[method-assign]
        return parser

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Any],
    ) -> int:
        """Print the answer, or those properties of it that are asked for.

        :returns: a status code
        :raises CannotRun: for a property that it does not have
        """
        for name in parsed_args.columns:
            if name not in column_names:
                raise base.CannotRun(
                    f'there is no property {name!r}: there are '
                    f'{", ".join(column_names)}'
                )
        if parsed_args.formatter == 'table' and not parsed_args.columns:
            # For people, what is not known is not there.
            known = [
                (name, value)
                for name, value in zip(column_names, data, strict=True)
                if value is not None and name not in self.ON_DEMAND
            ]
            column_names, data = zip(*known, strict=True)
        return super().produce_output(parsed_args, column_names, data)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Values:
        """Answer.

        :returns: properties and their values
        :raises CannotRun: if there is no answer
        """
        for name, value in vars(parsed_args).items():
            # argparse before Python 3.13 takes --rate=-- for a list of none.
            if name not in _LISTS and value in ([], [[]]):
                raise base.CannotRun(
                    f'argument --{name.replace("_", "-")}: it has no value'
                )
        try:
            said = self.answer(parsed_args)
        except (exception.Unanswerable, exception.InvalidRequest) as err:
            raise base.CannotRun(str(err)) from err
        return tuple(said), tuple(said.values())

    @abc.abstractmethod
    def answer(self, given: argparse.Namespace) -> dict[str, Any]:
        """Answer.

        :returns: properties and their values
        :raises Unanswerable: if there is no answer
        :raises InvalidRequest: if no cloud takes it
        """
