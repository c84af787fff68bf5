# SPDX-License-Identifier: Apache-2.0
import unittest

from oslotest import base
import testtools

from nova_rt.tests.nova import differences


class Sample(testtools.TestCase):
    """Tests that end in a known way; nothing runs them but tests below."""

    def setUp(self):
        super().setUp()
        if self.id().endswith('broken'):
            raise ValueError('no set-up')

    def passes(self):
        pass

    def fails(self):
        self.fail('one is not two')

    def skips(self):
        self.skipTest('not here')

    def broken(self):
        pass


class ExpectTest(base.BaseTestCase):
    """The report of a test that is on the list."""

    def run_with(self, name, shows):
        """Run a sample that is listed.

        :returns: the result, with its lists of (test, text)
        """
        test = Sample(name)
        known = {test.id(): differences.Difference('because', shows)}
        suite = differences.expect(unittest.TestSuite([test]), known)
        result = testtools.TestResult()
        suite.run(result)
        self.assertEqual(1, result.testsRun)
        return result

    def assert_fails(self, result, *texts):
        self.assertFalse(result.wasSuccessful())
        [(_, report)] = result.failures
        for text in texts:
            self.assertIn(text, report)

    def test_known_failure(self):
        result = self.run_with('fails', 'one is not t[a-z]o')
        self.assertTrue(result.wasSuccessful())
        self.assertEqual(1, len(result.expectedFailures))

    def test_known_error_in_set_up(self):
        result = self.run_with('broken', '^ValueError: no set-up$')
        self.assertTrue(result.wasSuccessful())

    def test_passes(self):
        result = self.run_with('passes', '.')
        self.assert_fails(result, 'does not fail', 'because')

    def test_skips(self):
        result = self.run_with('skips', '.')
        self.assert_fails(result, 'does not fail')

    def test_fails_in_another_way(self):
        result = self.run_with('fails', 'two is not one')
        self.assert_fails(result, 'one is not two', 'two is not one')

    def test_failure_that_is_not_listed(self):
        suite = unittest.TestSuite([Sample('fails')])
        result = testtools.TestResult()
        differences.expect(suite, {}).run(result)
        self.assert_fails(result, 'one is not two')

    def test_no_such_test(self):
        known = {'gone.Test.test': differences.Difference('because', '.')}
        suite = differences.expect(unittest.TestSuite(), known)
        result = testtools.TestResult()
        suite.run(result)
        self.assert_fails(result, 'no such test')
        self.assertEqual('gone.Test.test', result.failures[0][0].id())


class LoadTest(base.BaseTestCase):
    ENTRY = """
    [[difference]]
    reason = '''two
    lines'''
    shows = 'Error'
    [difference.tests]
    'a.b' = ['C.d']
    """

    def test_load(self):
        self.assertEqual(
            {'a.b.C.d': differences.Difference('two lines', 'Error')},
            differences.load(self.ENTRY),
        )

    def test_listed_twice(self):
        self.assertRaisesRegex(
            ValueError,
            'a.b.C.d is listed twice',
            differences.load,
            self.ENTRY * 2,
        )
