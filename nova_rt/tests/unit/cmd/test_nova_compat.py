# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.nova_compat."""

import fixtures
from oslo_messaging import expected_exceptions
from oslotest import base

from nova_rt.cmd import nova_compat

NEEDED = nova_compat.Extension(
    ('ours', 'Ours'),
    ('theirs', 'Theirs'),
    frozenset({'build'}),
    handed_on={'move': 'self one two three?'},
    called={'clean': 'self all'},
)


class Theirs:
    @expected_exceptions(ValueError)
    def build(self, context, *, node=None):
        """Nova's."""

    def move(self, one, two=2):
        """Nova's."""

    def clean(self, all=False):
        """Nova's."""


class Ours(Theirs):
    def build(self, context: str, *, node: str | None = None) -> None:
        """Ours, with annotations."""

    def move(self, *args, **kwargs):
        """Ours."""


class NamesTest(base.BaseTestCase):
    """Names of Nova that no class of ours extends."""

    def test_all_are_there(self):
        self.assertEqual([], nova_compat.find_misfits())

    def test_one_is_gone(self):
        for module, names in nova_compat.NAMES.items():
            for name in names:
                gone = fixtures.MonkeyPatch.delete
                with fixtures.MonkeyPatch(f'{module}.{name}', gone):
                    self.assertEqual(
                        [f'{module} has no {name}'],
                        [
                            misfit
                            for misfit in nova_compat.find_misfits()
                            if 'has no' in misfit
                        ],
                    )

    def test_module_is_gone(self):
        names = {'nova.nowhere': ('x',)}
        with fixtures.MonkeyPatch('nova_rt.cmd.nova_compat.NAMES', names):
            self.assertEqual(
                ['nova.nowhere has no x'], nova_compat.find_misfits()
            )


class CompareTest(base.BaseTestCase):
    def _compare(self, theirs):
        return list(nova_compat.compare(NEEDED, Ours, theirs))

    def test_fits(self):
        self.assertEqual([], self._compare(Theirs))

    def test_parameter_is_new(self):
        class New(Theirs):
            def build(self, context, limits, *, node=None):
                """Nova's."""

        self.assertEqual(
            ['theirs.Theirs.build() takes (self, context, limits, node)'],
            self._compare(New),
        )

    def test_default_is_another(self):
        class New(Theirs):
            def build(self, context, *, node=''):
                """Nova's."""

        self.assertEqual(1, len(self._compare(New)))

    def test_method_is_handed_on_otherwise(self):
        class New(Theirs):
            def move(self, two, one):
                """Nova's."""

        self.assertEqual(
            ['theirs.Theirs.move() takes (self, two, one)'], self._compare(New)
        )

    def test_handed_on_parameter_that_not_every_nova_has(self):
        class Later(Theirs):
            def move(self, one, two=2, three=3):
                """Nova's."""

        class Latest(Theirs):
            def move(self, one, two=2, three=3, four=4):
                """Nova's."""

        self.assertEqual([], self._compare(Later))
        self.assertEqual(1, len(self._compare(Latest)))

    def test_called_method_changed(self):
        class New(Theirs):
            def clean(self):
                """Nova's."""

        self.assertEqual(
            ['theirs.Theirs.clean() takes (self)'], self._compare(New)
        )

    def test_methods_are_gone(self):
        class Gone:
            pass

        self.assertEqual(
            [f'theirs.Theirs has no {name}()'
             for name in ('build', 'clean', 'move')],
            self._compare(Gone),
        )  # fmt: skip


class FindMisfitsTest(base.BaseTestCase):
    def _without(self, name, error):
        """Make the import of a module fail, as where it is not installed."""
        real = nova_compat.importlib.import_module

        def load(module):
            if module == name:
                raise error
            return real(module)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_rt.cmd.nova_compat.importlib.import_module', load
            )
        )

    def test_host_without_libvirt(self):
        """A controller: what nova-rt-compute needs is not looked at."""
        error = ModuleNotFoundError(
            "No module named 'libvirt'", name='libvirt'
        )
        self._without('nova_rt.compute.manager', error)
        self.assertEqual([], nova_compat.find_misfits())

    def test_module_of_nova_is_gone(self):
        error = ModuleNotFoundError("No module named 'nova.x'", name='nova.x')
        self._without('nova.scheduler.manager', error)
        misfit, name = nova_compat.find_misfits()
        self.assertIn('nova.scheduler.manager has no Sched', name)
        self.assertIn('nova.scheduler.manager cannot be loaded', misfit)

    def test_module_of_ours_misses_something_of_nova(self):
        self._without('nova_rt.scheduler.manager', AttributeError('utils'))
        (misfit,) = nova_compat.find_misfits()
        self.assertIn("AttributeError('utils')", misfit)


class DescribeTest(base.BaseTestCase):
    def test_tried(self):
        self.assertEqual('release 34', nova_compat.describe('34.0.0'))
        self.assertIn('00a030403f', nova_compat.describe('33.0.0.dev373'))

    def test_never_tried(self):
        for version in ('33.0.0', '35.0.0', '340.0', ''):
            self.assertIsNone(nova_compat.describe(version))
