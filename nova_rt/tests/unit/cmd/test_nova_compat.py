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


class NewParameter(Theirs):
    def build(self, context, limits, *, node=None):
        """Nova's."""


class OtherDefault(Theirs):
    def build(self, context, *, node=''):
        """Nova's."""


class OtherOrder(Theirs):
    def move(self, two, one):
        """Nova's."""


class Later(Theirs):
    def move(self, one, two=2, three=3):
        """Nova's, with what not every Nova has."""


class Latest(Theirs):
    def move(self, one, two=2, three=3, four=4):
        """Nova's, with one more."""


class CalledOtherwise(Theirs):
    def clean(self):
        """Nova's."""


class CompareTest(base.BaseTestCase):
    def test_misfits(self):
        for theirs, *misfits in (
            (Theirs,),
            (Later,),
            (NewParameter, '.build() takes (self, context, limits, node)'),
            (OtherDefault, '.build() takes (self, context, node)'),
            (OtherOrder, '.move() takes (self, two, one)'),
            (Latest, '.move() takes (self, one, two, three, four)'),
            (CalledOtherwise, '.clean() takes (self)'),
            (object, ' has no build()', ' has no clean()', ' has no move()'),
        ):
            self.assertEqual(
                [f'theirs.Theirs{misfit}' for misfit in misfits],
                list(nova_compat.compare(NEEDED, Ours, theirs)),
            )


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
