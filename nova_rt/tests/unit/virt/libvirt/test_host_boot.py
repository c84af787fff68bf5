# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.virt.libvirt.host_boot."""

from unittest import mock

from nova import exception as nova_exception
from nova.compute import vm_states
from oslo_db import exception as db_exception
from oslotest import base

from nova_rt.virt.libvirt import host_boot


class RetryTest(base.BaseTestCase):
    def test_a_server_that_cannot_be_saved(self):
        """Each by itself: the service starts, and others are resumed."""
        cases = (
            (nova_exception.InstanceNotFound(instance_id='x'),
             vm_states.ERROR),
            (db_exception.DBError(), vm_states.ACTIVE),
            (None, vm_states.ACTIVE),
        )  # fmt: skip
        instances = [
            mock.Mock(
                vm_state=vm_states.ERROR,
                system_metadata={host_boot.KEY: 'weaker'},
                save=mock.Mock(side_effect=error),
            )
            for error, _ in cases
        ]
        host_boot.retry(instances, lambda uuid: True)
        for instance, (_, state) in zip(instances, cases, strict=True):
            instance.save.assert_called_once_with()
            self.assertEqual(state, instance.vm_state)
