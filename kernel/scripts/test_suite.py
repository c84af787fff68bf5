# SPDX-License-Identifier: Apache-2.0
"""Tests of the table of HCBS-Test-Suite."""

import unittest

import suite

DONE = 'DONE script failures 0'
KNOWN = {
    '4/refused': suite.Expected('pass', 'fail', 'too much'),
    '1/other': suite.Expected('fail', 'pass', 'a limit'),
}


class SuiteTest(unittest.TestCase):
    """Verdicts against the list of known ends."""

    def verdict(self, without: list[str], with_: list[str]) -> bool:
        """The verdict on two lists of "<test> <result>"."""
        old, new = (
            [*(f'suite 4/{text}' for text in t), DONE]
            for t in (without, with_)
        )
        out, ok = suite.judge(old, new, KNOWN)
        self.assertEqual(f'verdict: {"passed" if ok else "FAILED"}', out[-1])
        return ok

    def test_expected(self) -> None:
        self.assertTrue(
            self.verdict(
                ['a pass', 'refused pass'], ['a pass', 'refused fail EBUSY']
            )
        )

    def test_unexpected(self) -> None:
        self.assertFalse(
            self.verdict(
                ['a pass', 'refused pass'], ['a fail x', 'refused fail']
            )
        )
        self.assertFalse(
            self.verdict(
                ['a fail', 'refused pass'], ['a pass', 'refused fail']
            )
        )

    def test_expected_to_fail_and_passes(self) -> None:
        self.assertFalse(self.verdict(['refused pass'], ['refused pass']))

    def test_fails_for_another_reason(self) -> None:
        known = {'4/a': suite.Expected('pass', 'fail: busy', 'too much')}
        old = ['suite 4/a pass', DONE]
        for text, ok in (
            ('fail device is busy', True),
            ('fail no such file', False),
            ('skip busy', False),
        ):
            new = [f'suite 4/a {text}', DONE]
            self.assertEqual(ok, suite.judge(old, new, known)[1])

    def test_did_not_run(self) -> None:
        good = ['a pass', 'refused pass']
        self.assertFalse(self.verdict(good, ['refused fail']))
        self.assertFalse(self.verdict(good, ['a pass']))
        self.assertFalse(self.verdict([], []))

    def test_unfinished(self) -> None:
        old = ['suite 4/refused pass', DONE]
        new = ['suite 4/refused fail']
        self.assertTrue(suite.judge(old, [*new, DONE], KNOWN)[1])
        self.assertFalse(suite.judge(old, new, KNOWN)[1])

    def test_what_is_said(self) -> None:
        out, _ = suite.judge(
            ['suite 4/a fail no such file', DONE],
            ['suite 4/a pass 0.4 units', DONE],
            {},
        )
        self.assertTrue(out[1].endswith('0.4 units'))
        self.assertEqual('    without: no such file', out[2])

    def test_list(self) -> None:
        for name, entry in suite.expected().items():
            self.assertRegex(name, '^[128]/')
            self.assertNotEqual(('pass', 'pass'), (entry.without, entry.with_))
            self.assertTrue(entry.reason)


if __name__ == '__main__':
    unittest.main()
