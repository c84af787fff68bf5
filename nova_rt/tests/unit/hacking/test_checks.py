# SPDX-License-Identifier: Apache-2.0
"""The style rules find what they are for, and nothing else."""

import ast
import textwrap

import ddt
from oslotest import base

from nova_rt.hacking import checks

DOC = """
def %s(x)%s:
    '''Work.

    %s
    '''
"""


def found(source: str, filename: str) -> list[str]:
    """Numbers of the rules that the source breaks at this place."""
    tree = ast.parse(textwrap.dedent(source))
    checker = checks.Checker(tree, f'./nova_rt/{filename}')
    return [text.split()[0] for _, _, text, _ in checker.run()]


class RulesTest(base.BaseTestCase):
    """One place and source for each branch; flake8 itself holds the table."""

    def test_found(self):
        for rule, filename, source in (
            ('NRT101', 'reservation/admission.py', 'import numpy'),
            ('NRT101', 'reservation/x.py', 'from nova_rt import conf'),
            ('NRT101', 'host/host.py', 'def late():\n    import nova'),
            ('NRT101', 'host/host.py', 'from ..compute import manager'),
            ('NRT101', 'host/host.py', 'from nova_rt.exporter import reading'),
            ('NRT101', 'conf/__init__.py', 'import nova.conf'),
            ('NRT101', 'compute/x.py', 'from nova_rt.cmd import compute'),
            ('NRT101', 'rest/x.py', 'from nova_rt.manage import records'),
            ('NRT101', 'model/sizing.py', 'from oslo_config import cfg'),
            ('NRT101', 'model/sizing.py', 'from nova_rt.host import host'),
            ('NRT101', 'utils.py', ''),
            ('NRT102', 'host/x.py', 'from nova_rt import privsep'),
            ('NRT102', 'host/x.py', 'from nova_rt.privsep import cgroup'),
            ('NRT102', 'host/x.py', 'from nova_rt.privsep.cgroup import y'),
            ('NRT102', 'host/x.py', 'import nova_rt.privsep.x as x'),
            ('NRT104', 'compute/manager.py', "cfg.StrOpt('name')"),
            ('NRT104', 'compute/manager.py', "cfg.OptGroup('group')"),
            ('NRT105', 'reservation/admission.py', 'x = 0.5'),
            ('NRT105', 'reservation/record.py', 'x = a / b'),
            ('NRT105', 'reservation/x.py', 'x /= 2'),
            ('NRT105', 'reservation/x.py', 'x = float(a)'),
            ('NRT105', 'reservation/x.py', 'x = 1j'),
            ('NRT107', 'host/host.py', 'from nova_rt.host import hcbs'),
            ('NRT107', 'host/host.py', 'from nova_rt.host.hcbs import HCBS'),
            ('NRT107', 'host/host.py', 'import nova_rt.host.hcbs_files'),
            ('NRT107', 'compute/x.py', "x = 'cpu.rt.max'"),
            ('NRT107', 'compute/x.py', "x = f'{group}/cpu.rt_runtime_us'"),
            ('NRT107', 'virt/libvirt/x.py', "x = {'v1-throttle': 1}"),
            ('NRT107', 'virt/x.py', 'if a.interface.name == name: pass'),
            ('NRT107', 'virt/x.py', 'x = 1 if a.interface is b else 2'),
            ('NRT109', 'host/x.py', DOC % ('f', ' -> int', ':raises X: y')),
            ('NRT109', 'host/x.py', DOC % ('f', ' -> int', ':param x: y')),
        ):  # fmt: skip
            self.assertEqual([rule], found(source, filename), source)

    def test_not_found(self):
        for filename, source in (
            ('host/host.py', 'from . import cgroup'),
            ('host/host.py', 'import novaclient'),
            ('host/cgroup.py', 'import nova_rt.privsep.cgroup'),
            ('privsep/policy.py', 'from nova_rt.privsep import cgroup'),
            ('conf/__init__.py', "cfg.StrOpt('name')"),
            ('cmd/status.py', "cfg.SubCommandOpt('command')"),
            ('reservation/x.py', "x = -(-a // b), f'{q}/{p}'"),
            ('formats/times.py', 'x = a / 0.5'),
            ('host/host.py', "def f():\n    'Writes cpu.rt.max.'"),
            ('host/host.py', "x = 'cpu.max', found.interface.name"),
            ('host/host.py', 'if found.enforcement is other: pass'),
            (
                'host/hcbs.py',
                'from nova_rt.host import supply',
            ),
            ('host/probe.py', "x = 'cpu.rt.max'"),
            ('tests/x.py', DOC % ('f', ' -> int', ':raises X: y')),
            ('host/x.py', DOC % ('f', ' -> int', ':returns: a number')),
            ('host/x.py', DOC % ('f', ' -> int', 'A number.')),
            ('host/x.py', DOC % ('_f', ' -> int', ':raises X: y')),
            ('host/x.py', DOC % ('f', ' -> None', ':raises X: y')),
            ('host/x.py', DOC % ('f', '', ':raises X: y')),
            (
                'tests/x.py',
                "from nova_rt.host import supply\nx = 'cpu.rt.max'",
            ),
        ):
            self.assertEqual([], found(source, filename), source)

    def test_file_of_another_package(self):
        tree = ast.parse('import nova\nx = 1 / 2')
        checker = checks.Checker(tree, './tools/admission.py')
        self.assertEqual([], list(checker.run()))

    def test_checkout_with_the_name_of_the_package(self):
        tree = ast.parse('import nova')
        checker = checks.Checker(tree, '/src/nova_rt/nova_rt/host/host.py')
        ((_, _, text, _),) = checker.run()
        self.assertIn('host does without Nova', text)


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
