# SPDX-License-Identifier: Apache-2.0
"""The style rules find what they are for, and nothing else."""

import ast
import textwrap

import ddt
from oslotest import base

from nova_rt.hacking import checks


def found(source: str, filename: str) -> list[str]:
    """Numbers of the rules that the source breaks at this place."""
    tree = ast.parse(textwrap.dedent(source))
    checker = checks.Checker(tree, f'./nova_rt/{filename}')
    return [text.split()[0] for _, _, text, _ in checker.run()]


@ddt.ddt
class TestImportDirection(base.BaseTestCase):
    @ddt.data(
        ('reservation/admission.py', 'import json'),
        (
            'reservation/admission.py',
            'from nova_rt.reservation import reservation',
        ),
        ('conf/__init__.py', 'from oslo_config import cfg'),
        ('conf/__init__.py', 'from nova_rt.reservation import reservation'),
        ('privsep/cgroup.py', 'from oslo_privsep import capabilities'),
        ('host/host.py', 'import nova_rt.privsep.cgroup'),
        ('host/host.py', 'from nova_rt.host import capability'),
        ('virt/libvirt/driver.py', 'from nova.virt.libvirt import driver'),
        ('virt/libvirt/driver.py', 'from nova_rt.host import host'),
        ('compute/manager.py', 'from nova.compute import manager'),
        ('exporter/reading.py', 'from nova_rt.host import host'),
        (
            'exporter/domains.py',
            'from nova_rt.reservation import domain_record',
        ),
        ('model/schedule.py', 'import numpy.typing'),
        ('model/sizing.py', 'from nova_rt.reservation import reservation'),
        ('cmd/model.py', 'from nova_rt.model import sizing'),
        ('cmd/compute.py', 'import nova_rt.compute.manager'),
        ('rest/sources.py', 'from nova_rt.cloud import records'),
        ('_nova_virt/nova_rt.py', 'from nova_rt.virt.libvirt import driver'),
        ('tests/unit/test_x.py', 'from nova_rt.scheduler import manager'),
    )
    @ddt.unpack
    def test_downward(self, filename, source):
        self.assertEqual([], found(source, filename))

    @ddt.data(
        ('reservation/admission.py', 'import numpy'),
        ('reservation/admission.py', 'from oslo_config import cfg'),
        ('reservation/admission.py', 'from nova_rt import conf'),
        ('reservation/reservation.py', 'from nova_rt.host import host'),
        ('conf/__init__.py', 'import nova.conf'),
        ('conf/__init__.py', 'from nova_rt.host import host'),
        ('privsep/cgroup.py', 'from nova import utils'),
        ('privsep/cgroup.py', 'from nova_rt.host import host'),
        ('host/host.py', 'import nova'),
        ('host/host.py', 'from nova_rt import conf'),
        ('host/host.py', 'from nova_rt import db'),
        ('host/host.py', 'from nova_rt.virt.libvirt import driver'),
        ('virt/libvirt/driver.py', 'from nova_rt.compute import manager'),
        ('scheduler/weights/rt.py', 'from nova_rt.host import host'),
        ('api/middleware.py', 'from nova_rt.scheduler import manager'),
        ('compute/manager.py', 'from nova_rt.cmd import compute'),
        ('rest/sources.py', 'from nova_rt.manage import records'),
        ('exporter/reading.py', 'import nova.conf'),
        ('exporter/reading.py', 'from nova_rt.virt.libvirt import metadata'),
        ('exporter/reading.py', 'from nova_rt.compute import counters'),
        ('host/host.py', 'from nova_rt.exporter import reading'),
        ('reservation/domain_record.py', 'from lxml import etree'),
        ('model/sizing.py', 'from nova import objects'),
        ('model/sizing.py', 'from nova_rt.host import host'),
        ('model/sizing.py', 'from oslo_config import cfg'),
        ('reservation/reservation.py', 'from nova_rt.model import sizing'),
    )
    @ddt.unpack
    def test_upward(self, filename, source):
        self.assertEqual(['NRT101'], found(source, filename))

    def test_inside_a_function(self):
        source = """
        def late():
            import nova
        """
        self.assertEqual(['NRT101'], found(source, 'host/host.py'))

    def test_relative(self):
        source = 'from ..compute import manager'
        self.assertEqual(['NRT101'], found(source, 'host/host.py'))
        self.assertEqual([], found('from . import cgroup', 'host/host.py'))

    def test_a_name_that_only_begins_like_nova(self):
        self.assertEqual([], found('import novaclient', 'host/host.py'))

    def test_module_without_a_layer(self):
        self.assertEqual(['NRT101'], found('', 'utils.py'))

    def test_file_of_another_package(self):
        tree = ast.parse('import nova\nx = 1 / 2')
        checker = checks.Checker(tree, './tools/admission.py')
        self.assertEqual([], list(checker.run()))

    def test_checkout_with_the_name_of_the_package(self):
        tree = ast.parse('import nova')
        checker = checks.Checker(tree, '/src/nova_rt/nova_rt/host/host.py')
        self.assertEqual(1, len(list(checker.run())))


@ddt.ddt
class TestPrivsepNames(base.BaseTestCase):
    def test_full_name(self):
        source = 'import nova_rt.privsep.cgroup'
        self.assertEqual([], found(source, 'host/cgroup.py'))

    @ddt.data(
        'from nova_rt import privsep',
        'from nova_rt.privsep import cgroup',
        'from nova_rt.privsep.cgroup import write',
        'import nova_rt.privsep.cgroup as cgroup',
    )
    def test_hidden(self, source):
        self.assertEqual(['NRT102'], found(source, 'host/cgroup.py'))

    def test_inside_privsep(self):
        source = 'from nova_rt.privsep import cgroup'
        self.assertEqual([], found(source, 'privsep/policy.py'))


@ddt.ddt
class TestOptions(base.BaseTestCase):
    @ddt.data("cfg.StrOpt('name')", "cfg.OptGroup('group')")
    def test_outside_conf(self, source):
        self.assertEqual(['NRT104'], found(source, 'compute/manager.py'))
        self.assertEqual([], found(source, 'conf/__init__.py'))

    def test_commands_of_a_program(self):
        source = "cfg.SubCommandOpt('command')"
        self.assertEqual([], found(source, 'cmd/status.py'))


@ddt.ddt
class TestIntegers(base.BaseTestCase):
    @ddt.data('x = 0.5', 'x = a / b', 'x /= 2', 'x = float(a)', 'x = 1j')
    def test_found(self, source):
        for path in (
            'reservation/admission.py', 'reservation/record.py',
            'reservation/x.py',
        ):  # fmt: skip
            self.assertEqual(['NRT105'], found(source, path))

    @ddt.data('x = a // b', 'x = -(-a // b)', "x = f'{q}/{p}'")
    def test_integers(self, source):
        self.assertEqual([], found(source, 'reservation/admission.py'))

    @ddt.data('host/tasks.py', 'formats/times.py', 'manage/flavor.py')
    def test_elsewhere(self, path):
        self.assertEqual([], found('x = a / 0.5', path))


@ddt.ddt
class TestKernelKinds(base.BaseTestCase):
    @ddt.data(
        'from nova_rt.host import v1_throttling',
        'from nova_rt.host.hcbs import HCBS',
        'import nova_rt.host.hcbs_files',
        "x = 'cpu.rt.max'",
        "x = f'{group}/cpu.rt_runtime_us'",
        "x = {'v1-throttle': 1}",
        'if found.interface.name == name: pass',
        'x = 1 if backend.interface is other else 2',
    )
    def test_told_apart(self, source):
        for module in ('host/host.py', 'compute/x.py', 'virt/libvirt/x.py'):
            self.assertIn('NRT107', found(source, module))

    @ddt.data(
        "def f():\n    'Writes cpu.rt.max.'",
        "x = 'cpu.max'",
        'x = found.interface.name',
        'if found.enforcement is other: pass',
    )
    def test_not_told_apart(self, source):
        self.assertEqual([], found(source, 'host/host.py'))

    def test_in_the_back_ends(self):
        source = "from nova_rt.host import supply\nx = 'cpu.rt.max'"
        for module in ('host/hcbs.py', 'host/probe.py', 'tests/x.py'):
            self.assertEqual([], found(source, module))


@ddt.ddt
class TestReturns(base.BaseTestCase):
    source = """
    def %s(x)%s:
        \'\'\'Work.

        %s
        \'\'\'
    """

    @ddt.data(
        ('f', ' -> int', ':raises OSError: always'),
        ('f', ' -> int | None', ':param x: a number'),
    )
    def test_not_said(self, words):
        source = self.source % words
        self.assertEqual(['NRT109'], found(source, 'host/x.py'))
        self.assertEqual([], found(source, 'tests/unit/test_x.py'))

    @ddt.data(
        ('f', ' -> int', ':returns: a number'),
        ('f', ' -> int', 'A number.'),
        ('_f', ' -> int', ':raises OSError: always'),
        ('f', ' -> None', ':raises OSError: always'),
        ('f', '', ':raises OSError: always'),
    )
    def test_said(self, words):
        self.assertEqual([], found(self.source % words, 'host/x.py'))


@ddt.ddt
class TestProse(base.BaseTestCase):
    def findings(self, source):
        checker = checks.Prose(ast.parse(source))
        return [(line, text.split()[0]) for line, _, text, _ in checker.run()]

    @ddt.data(
        '"""What it does."""',
        'class X:\n    """Who does it."""',
        'x = 1\ndef f():\n    """How often."""',
    )
    def test_no_head(self, source):
        last = source.count('\n') + 1
        self.assertEqual([(last, 'NRT110')], self.findings(source))

    @ddt.data(
        '"""Whether it does."""', '"""Return what it does."""',
        'x = """What it does."""', 'def f():\n    pass', '',
    )  # fmt: skip
    def test_head(self, source):
        self.assertEqual([], self.findings(source))
