# SPDX-License-Identifier: Apache-2.0
"""The tests of Nova's that our classes fail, and why: differences.toml.

Such a test has to fail, and in the way that the list says. One that passes,
or fails in another way, is reported as a failure, and so is an entry that
names no test.
"""

import dataclasses
import datetime
import pathlib
import re
import tomllib
import unittest

import testtools
from testtools import content, testsuite

FILE = pathlib.Path(__file__).with_name('differences.toml')


@dataclasses.dataclass(frozen=True)
class Difference:
    """The reason why a test fails.

    :ivar reason: for whoever maintains the list
    :ivar shows: regular expression that the output of the test matches
    """

    reason: str
    shows: str


def load(text: str) -> dict[str, Difference]:
    """Read the list.

    :param text: what stands in the file
    :returns: test ID -> why it fails
    :raises ValueError: if a test is listed twice
    """
    found = {}
    for entry in tomllib.loads(text)['difference']:
        difference = Difference(
            ' '.join(entry['reason'].split()), entry['shows']
        )
        for module, names in entry['tests'].items():
            for name in names:
                test_id = f'{module}.{name}'
                if test_id in found:
                    raise ValueError(f'{test_id} is listed twice')
                found[test_id] = difference
    return found


def expect(
    suite: unittest.TestSuite, known: dict[str, Difference]
) -> unittest.TestSuite:
    """Expect the failures of the list.

    :param suite: the tests
    :param known: test ID -> why it fails
    :returns: the same tests, those of the list wrapped; then a failing test
        for each entry that names none of them
    """
    stale = set(known)
    result = unittest.TestSuite()
    for test in testsuite.iterate_tests(suite):
        stale.discard(test.id())
        difference = known.get(test.id())
        result.addTest(
            ExpectedFailure(test, difference) if difference else test
        )
    result.addTests(
        testtools.PlaceHolder(
            test_id,
            outcome='addFailure',
            details=_say(f'Nova has no such test: delete it from {FILE.name}'),
        )
        for test_id in sorted(stale)
    )
    return result


class ExpectedFailure(testtools.PlaceHolder):
    """Stands for a test of the list, and judges how it ends."""

    def __init__(self, test: unittest.TestCase, difference: Difference):
        super().__init__(test.id())
        self._test = test
        self._difference = difference

    def run(self, result=None):
        """Run the test and report how it ended, as the list has it."""
        outcome = testtools.TestResult()
        begin = datetime.datetime.now(datetime.UTC)
        self._test.run(outcome)
        self._timestamps = (begin, datetime.datetime.now(datetime.UTC))
        problems = [text for _, text in outcome.errors + outcome.failures]
        text = '\n'.join(problems)
        if not problems:
            self._outcome = 'addFailure'
            self._details = _say(
                f'This test does not fail: delete it from {FILE.name}, where '
                f'the reason is: {self._difference.reason}'
            )
        elif re.search(self._difference.shows, text, re.M):
            self._outcome = 'addExpectedFailure'
            self._details = _say(self._difference.reason)
        else:
            self._outcome = 'addFailure'
            self._details = _say(
                f'{text}\nThis test fails, but its output does not match '
                f'{self._difference.shows!r} in {FILE.name}'
            )
        super().run(result)


def _say(text: str) -> dict[str, content.Content]:
    return {'traceback': content.text_content(text)}
