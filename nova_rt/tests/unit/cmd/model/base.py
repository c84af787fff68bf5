# SPDX-License-Identifier: Apache-2.0
"""Runs nova-rt-model in this process."""

import pathlib
import shlex

import fixtures
from oslotest import base

from nova_rt.cmd.model import app
from nova_rt.tests.fixtures import manage


class TestCase(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def run_it(self, line, *words):
        """Run a command.

        :param line: its arguments, as in a shell
        :param words: more of them, as they are
        """
        return manage.run_program(
            lambda **streams: app.App(alone=False, **streams),
            *shlex.split(line), *words,
        )  # fmt: skip

    def ask(self, line, *words):
        """Ask, and return the answer as programs get it."""
        result = self.run_it(line, *words, '-f', 'json')
        self.assertEqual((0, ''), (result.code, result.err))
        return result.data

    def assert_refused(self, text, line, *words):
        result = self.run_it(line, *words)
        self.assertEqual((2, ''), (result.code, result.out), result.err)
        self.assertEqual(1, result.err.count('\n'), result.err)
        self.assertTrue(result.err[:-1].isprintable(), result.err)
        self.assertIn(text, result.err)

    def write(self, name, data):
        path = self.directory / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)
