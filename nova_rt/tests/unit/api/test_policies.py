# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.api.policies; what the rules do: functional tests."""

from nova import policies as nova_policies
from oslo_policy import generator
from oslotest import base

from nova_rt.api import policies


class PoliciesTest(base.BaseTestCase):
    def test_tools_of_oslo_find_them(self):
        """By our entry point, as oslopolicy-sample-generator does."""
        found = generator.get_policies_dict(['nova_rt'])
        self.assertEqual(
            [rule.name for rule in policies.list_rules()],
            [rule.name for rule in found['nova_rt']],
        )

    def test_none_is_novas(self):
        novas = {rule.name for rule in nova_policies.list_rules()}
        for rule in policies.list_rules():
            self.assertNotIn(rule.name, novas)
