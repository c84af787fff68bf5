# SPDX-License-Identifier: Apache-2.0
"""Stock nova-compute, with the one change without which LXC is dangerous.

libvirt-lxc gives a container without an interface the network namespace of
the host, unless its domain says privnet; Nova never says it. Used to compare
nova-rt-compute with.
"""

# ruff: noqa: E402
from nova import monkey_patch

monkey_patch.patch(backend='threading')

import sys
from typing import Any

from nova.cmd import compute
from nova.virt import libvirt
from nova.virt.libvirt import config, driver


class PrivateNetworkDriver(driver.LibvirtDriver):
    """The libvirt driver, giving every container its own network."""

    def _set_features(self, guest: Any, *args: Any) -> None:
        super()._set_features(guest, *args)
        guest.add_feature(config.LibvirtConfigGuestFeature('privnet'))


if __name__ == '__main__':
    libvirt.LibvirtDriver = PrivateNetworkDriver
    sys.argv[0] = 'nova-compute'
    sys.exit(compute.main())
