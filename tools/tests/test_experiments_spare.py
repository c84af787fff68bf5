# SPDX-License-Identifier: Apache-2.0
"""Answers when a budget is used up."""

import contextlib
import io
import pathlib
import tempfile

from oslotest import base

from experiments.spare import __main__ as command

LOG = """\
TEST pings:2,40000,100000,0,10000
ok   no pool: accepted
batch {units} 79800000
ping 60103000
ping {last}
DONE pings failures 0
"""


def _outcome(case, units=1000, last=60_100_000):
    return command.parse(case, LOG.format(units=units, last=last))


class SpareTest(base.BaseTestCase):
    def test_parse(self):
        outcome = _outcome(command.CASES[0])
        self.assertEqual((60_103_000, 60_100_000), outcome.pings_ns)
        self.assertEqual(200_000_000, outcome.length_ns)
        self.assertEqual(5000, outcome.units_per_s)
        for broken in ('', LOG.replace('failures 0', 'failures 1')):
            self.assertRaises(
                ValueError, command.parse, command.CASES[0], broken
            )

    def test_bounds(self):
        self.assertEqual(
            [60_100_000, 10_000_000, 10_000_000, 6_100_000],
            [case.bound_ns() for case in command.CASES],
        )
        self.assertEqual('(40, 100) + (1, 10)', command.CASES[2].name)

    def test_judge(self):
        without, pool = command.CASES[:2]
        good = [_outcome(without), _outcome(pool, 991, 1_000_000)]
        # The first ping of the log is too late for a pool.
        self.assertEqual(
            [True, False, True], [kept for _, kept in command.judge(good)]
        )
        bad = [_outcome(without, last=60_300_000), _outcome(pool, 989)]
        self.assertEqual(
            [False, False, False], [kept for _, kept in command.judge(bad)]
        )

    def test_write(self):
        place = pathlib.Path(self._temporary())
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command.write([_outcome(case) for case in command.CASES], place)
        self.assertIn('(40, 100) + (4, 10) | 2 | 60.100', out.getvalue())
        self.assertEqual(
            5, len((place / 'spare.csv').read_text().splitlines())
        )
        self.assertEqual(
            9, len((place / 'spare-pings.csv').read_text().splitlines())
        )
        self.assertTrue((place / 'spare.svg').read_text().startswith('<?xml'))

    def _temporary(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        return place.name
