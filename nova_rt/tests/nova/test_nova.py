# SPDX-License-Identifier: Apache-2.0
"""The tests that stestr finds: those of Nova's modules, on our classes."""

import unittest

from nova_rt.tests.nova import classes, differences

MODULES = (
    'nova.tests.unit.compute.test_compute_mgr',
    'nova.tests.unit.compute.test_resource_tracker',
    'nova.tests.unit.virt.libvirt.test_driver',
)


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: object
) -> unittest.TestSuite:
    """Load Nova's test modules; the protocol of unittest."""
    classes.install()
    suite = loader.loadTestsFromNames(MODULES)
    classes.adopt()
    known = differences.load(differences.FILE.read_text())
    return differences.expect(suite, known)
