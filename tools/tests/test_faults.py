# SPDX-License-Identifier: Apache-2.0
"""The manual's table of faults; needs no lab."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

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
    """The committed page and figures."""

    def test_page_is_what_the_figures_render_to(self):
        found = json.loads(faults.COMMITTED.read_text())
        self.assertEqual(
            faults.PAGE.read_text(),
            faults.render(found['machine'], found['tests']),
            f'"{faults.COMMAND}" writes it',
        )
        self.assertEqual([], faults.wrong(found['tests']))

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
