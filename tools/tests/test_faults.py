# SPDX-License-Identifier: Apache-2.0
"""The manual's table of faults; needs no lab."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from docutils import core, nodes

from lab import faults

FIGURES = {
    'KillTest.test_create': {
        'tries': 10, 'kills': 10, 'samples': 1300, 'longest gap, ms': 150,
        'over-commitments': 0, 'losses': 0,
    },
    'StormTest.test_storm': {
        'kills': 30, 'creates': 200, 'repaired by the audit': 1,
        'samples': 6000, 'longest gap, ms': 170,
        'over-commitments': 0, 'losses': 0,
    },
}  # fmt: skip


class PageTest(unittest.TestCase):
    """The committed page and figures, and what a run makes of them."""

    def test_page_is_what_the_figures_render_to(self):
        found = json.loads(faults.COMMITTED.read_text())
        self.assertEqual(
            faults.PAGE.read_text(),
            faults.render(found['machine'], found['tests']),
            f'"{faults.COMMAND}" writes it',
        )
        self.assertEqual([], faults.wrong(found['tests']))

    def test_table(self):
        text = faults.render('a machine', FIGURES)
        document = core.publish_doctree(
            text.replace(':ref:', ''), settings_overrides={'report_level': 5}
        )
        rows = [
            [entry.astext() for entry in row.findall(nodes.entry)]
            for row in document.findall(nodes.row)
        ]
        self.assertEqual(
            ['StormTest.test_storm', 'kills: 30, creates: 200',
             '6000, at most 170 ms apart', '0', '0', '0', '1'],
            rows[2],
        )  # fmt: skip
        self.assertIn(
            'tries: 10, kills: 40, samples: 7300, over-commitments: 0', text
        )

    def _main(self, figures, before=()):
        top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (top / 'out').write_text(json.dumps({'tests': dict(before)}))
        for test, found in figures.items():
            (top / f'{test}.json').write_text(json.dumps(found))
        errors = io.StringIO()
        with (
            mock.patch.multiple(
                faults, FIGURES=top, COMMITTED=top / 'out', PAGE=top / 'page'
            ),
            contextlib.redirect_stderr(errors),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            code = faults.main([])
        return code, errors.getvalue(), (top / 'page').exists()

    def test_written(self):
        self.assertEqual((0, '', True), self._main(FIGURES))

    def test_what_must_not_be_is_not_written(self):
        for name in faults.WRONGS:
            bad = FIGURES['StormTest.test_storm'] | {name: 2}
            code, errors, written = self._main({'StormTest.test_storm': bad})
            self.assertEqual((1, False), (code, written))
            self.assertEqual(f'StormTest.test_storm: 2 {name}\n', errors)

    def test_what_was_not_run(self):
        """Its row would go without a word."""
        test = 'StormTest.test_storm'
        code, errors, written = self._main(
            {test: FIGURES[test]}, before=FIGURES
        )
        self.assertEqual((1, False), (code, written))
        self.assertIn('KillTest.test_create: it did not run', errors)
        self.assertEqual(1, errors.count('\n'))
