# SPDX-License-Identifier: Apache-2.0
"""Modules of the lab that need no lab."""

import types
import unittest

from lab import accounts, catalog, paths
from lab.console import LabError

PASSWD = 'root:x:0:0:root:/root:/bin/bash\n'
GROUP = 'root:x:0:\nlibvirt:x:109:admin\nkvm:x:110:\n'


class AccountsTest(unittest.TestCase):
    """User nova, in texts of the machine's files."""

    def test_user(self):
        text = accounts.with_user(PASSWD)
        self.assertTrue(text.startswith(PASSWD))
        name, password, number, *_ = text.splitlines()[-1].split(':')
        self.assertEqual(('nova', '*', '64060'), (name, password, number))
        self.assertEqual(text, accounts.with_user(text))

    def test_groups(self):
        text = accounts.with_groups(GROUP)
        self.assertIn('\nkvm:x:110:\n', text)
        self.assertIn('\nnova:x:64060:\n', text)
        self.assertIn('\nlibvirt:x:109:admin,nova\n', text)
        self.assertEqual(text, accounts.with_groups(text))

    def test_machine_without_group_libvirt(self):
        self.assertRegex(
            accounts.with_groups('root:x:0:\n'), r'\nlibvirt:x:\d+:nova\n'
        )

    def test_own_account_of_the_machine_is_replaced(self):
        text = accounts.with_user(f'{PASSWD}nova:x:999:999::/home/x:/bin/sh\n')
        self.assertNotIn(':999:', text)

    def test_somebody_else_has_the_id(self):
        for function, line in (
            (accounts.with_user, 'nina:x:64060:100::/home/nina:/bin/sh\n'),
            (accounts.with_groups, 'nina:x:64060:\n'),
        ):
            with self.assertRaisesRegex(LabError, "'nina' has the id 64060"):
                function(line)

    def test_rules_have_the_places_of_the_lab(self):
        text = accounts.sudoers(accounts.RULES.read_text())
        rules = [line for line in text.splitlines() if 'Cmnd_Alias' in line]
        shipped = accounts.RULES.read_text().count('Cmnd_Alias ')
        self.assertEqual(2 * shipped, len(rules))
        for rule in rules:
            self.assertIn(f'{paths.VENV}/bin/privsep-helper ^', rule)
            for place in ('/usr/bin/', '/etc/nova/nova'):
                self.assertNotIn(f' {place}', rule)
        self.assertEqual(
            shipped, sum(r'nova-compute-stock\.conf' in rule for rule in rules)
        )


class ReportingTest(unittest.TestCase):
    """Whether a service that was started takes requests."""

    def reporting(self, seconds, since, state='up'):
        stamp = f'2026-11-21T12:00:{seconds:02}.000000'
        service = types.SimpleNamespace(state=state, updated_at=stamp)
        compute = types.SimpleNamespace(services=lambda binary: [service])
        cloud = types.SimpleNamespace(compute=compute)
        return catalog.reporting(cloud, 'nova-compute', since)

    def test_report_of_the_one_before_in_the_same_second(self):
        # Nova keeps whole seconds: this may be any moment of second 5.
        began = catalog._seconds('2026-11-21T12:00:05.000000') + 0.7
        self.assertFalse(self.reporting(4, began))
        self.assertFalse(self.reporting(5, began))
        self.assertTrue(self.reporting(6, began))
        self.assertFalse(self.reporting(6, began, state='down'))
