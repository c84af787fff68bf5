# SPDX-License-Identifier: Apache-2.0
"""Comparison of the manual's examples with nova-rt-model.

Write the output into the pages anew with

    python -m tools.tests.test_model_chapter
"""

import contextlib
import os
import pathlib
import re
import tempfile
import textwrap
import unittest

from lab import paths
from nova_rt.model.limits import Limits
from nova_rt.reservation.reservation import Reservation
from nova_rt.tests.unit.cmd.model import base

DOC = paths.CHECKOUT / 'doc' / 'source'
SIZING = DOC / 'user' / 'sizing.rst'
PAGES = (SIZING, DOC / 'cli' / 'nova-rt-model.rst')
EXAMPLE = (
    'reservation --rate 500/s --service-time 1ms --latency 0.1ms '
    '--percentile 99 -f value -c Reservation --deadline'
)

_FILE = re.compile(
    r'^\.\. code-block:: \w+\n   :caption: (\S+)\n\n((?:(?:   .*)?\n)+)', re.M
)
_BLOCK = re.compile(r'^\.\. code-block:: console\n\n((?:(?:   .*)?\n)+)', re.M)
_COMMAND = re.compile(r'^\$ nova-rt-model ((?:.*\\\n)*.*)\n', re.M)
_ROW = re.compile(
    r'^   \* - ([0-9.]+ m?s)\n     - ([0-9.]+)\n     - ``([0-9/]+)``\n', re.M
)


def run(line):
    """Return both streams of a command."""
    case = base.TestCase('setUp')
    case.setUp()
    try:
        result = case.run_it(line)
    finally:
        case.doCleanups()
    return result.out + result.err


@contextlib.contextmanager
def files_of(text):
    """Be in a directory that has the files of a page."""
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            for name, body in _FILE.findall(text):
                pathlib.Path(name).write_text(textwrap.dedent(body))
            yield
        finally:
            os.chdir(before)


def rewrite(text):
    """The page with the present output of its commands."""

    def block(found):
        body = textwrap.dedent(found[1]).strip('\n') + '\n'
        parts = []
        for command in _COMMAND.finditer(body):
            parts += [command[0], run(command[1].replace('\\\n', ' '))]
            if not parts[-1].endswith('\n'):
                parts[-1] += '\n'
        if not parts:
            return found[0]
        new = textwrap.indent(''.join(parts), '   ')
        return f'.. code-block:: console\n\n{new}\n'

    with files_of(text):
        return _BLOCK.sub(block, text)


def example(deadline, more=''):
    return run(f'{EXAMPLE} {deadline.replace(" ", "")} {more}').strip()


class ChapterTest(unittest.TestCase):
    maxDiff = None

    def test_output(self):
        for page in PAGES:
            with self.subTest(page.name):
                text = page.read_text()
                self.assertIn('$ nova-rt-model', text)
                self.assertEqual(text, rewrite(text))

    def test_the_test_sees_a_difference(self):
        text = SIZING.read_text()
        wrong = text.replace('| 963/1300 ', '| 964/1300 ')
        self.assertNotEqual(text, wrong)
        self.assertEqual(text, rewrite(wrong))

    def test_tables(self):
        text = SIZING.read_text()
        deadlines, _, rest = text.partition('The period\n===')
        periods = rest.partition('Other services\n===')[0]
        rows = _ROW.findall(deadlines)
        self.assertEqual(6, len(rows))
        for deadline, bandwidth, reservation in rows:
            self.assertEqual(reservation, example(deadline))
            found = Reservation.parse(reservation)
            self.assertLessEqual(float(bandwidth), found.ppm / 1e6 + 5e-4)
        rows = re.findall(
            r'^   \* - ([0-9.]+ m?s)\n     - ``([0-9/]+)``\n'
            r'     - ([0-9.]+)\n     - ([0-9.]+) ms\n', periods, re.M,
        )  # fmt: skip
        self.assertEqual(5, len(rows))
        for period, reservation, bandwidth, gap in rows:
            more = f'--period {period.replace(" ", "")}'
            self.assertEqual(reservation, example('20ms', more))
            found = Reservation.parse(reservation)
            self.assertAlmostEqual(
                float(bandwidth), found.ppm / 1e6, delta=5.01e-4
            )
            # Of what is left after the overhead.
            runtime_us = found.runtime_us - Limits().overhead_us
            self.assertAlmostEqual(
                float(gap), 1e-3 * (found.period_us - runtime_us),
                delta=0.0501,
            )  # fmt: skip

    def test_other_services(self):
        text = SIZING.read_text()
        for wanted, line in (
            ('933/1500', example('20ms', '--distribution constant')),
            (
                '894/1200',
                example('20ms', '--link 64Mbit --request-size 2KiB'),
            ),
            (
                '959/1200',
                example(
                    '20ms',
                    '--link 64Mbit --request-size 2KiB --conservative',
                ),
            ),
            ('1022/1800', example('20ms', '--vcpus 4 --rate 2000/s')),
            (
                '963/1300',
                example('20ms', '--vcpus 4 --rate 2000/s --split'),
            ),
            (
                '6006/10000',
                run(
                    'reservation --rate 300/s --deadline 20ms --latency '
                    '0.1ms --burst 5 --longest 2ms -f value -c Reservation'
                ).strip(),
            ),
        ):
            self.assertIn(f'``{wanted}``', text)
            self.assertEqual(wanted, line)

    def test_options_are_there(self):
        """Those that the text names."""
        known = ''.join(
            run(f'{command} --help')
            for command in ('reservation', 'plan', 'simulate', 'fit')
        )
        for page in PAGES:
            for option in set(re.findall(r'``(--[a-z-]+)', page.read_text())):
                with self.subTest(option):
                    self.assertIn(option, known)

    def test_python(self):
        """The example in Python says the same."""
        text = SIZING.read_text()
        body = re.search(
            r'^\.\. code-block:: python\n\n((?:(?:   .*)?\n)+)', text, re.M
        )[1]
        names = {}
        with contextlib.redirect_stdout(None):
            exec(textwrap.dedent(body), names)
        self.assertEqual('963/1300', str(names['found'].reservation))
        self.assertEqual('963/1300', example('20ms'))


if __name__ == '__main__':
    for each in PAGES:
        each.write_text(rewrite(each.read_text()))
