# SPDX-License-Identifier: Apache-2.0
"""Keeps the host's end of every container's network device up.

libvirt makes the device and takes it up; ovs-vswitchd then makes it
promiscuous by writing back all of the flags that it has last heard of. If it
has not heard of libvirt's change by then, it takes the device down again (OVS
lib/netdev-linux.c, update_flags()), for good: the container has no network.
On a busy machine that befalls one server in some.
"""

import errno
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

_PREFIX = 'tap'
_UP = 0x1


def main() -> None:
    """Watch the network devices of this namespace, for ever."""
    with IPRoute() as links:
        links.bind()
        for message in links.get_links():
            _keep_up(links, message)
        while True:
            for message in links.get():
                if message.get('event') == 'RTM_NEWLINK':
                    _keep_up(links, message)


def _keep_up(links: IPRoute, message: dict[str, Any]) -> None:
    name = dict(message['attrs']).get('IFLA_IFNAME', '')
    if not name.startswith(_PREFIX) or message['flags'] & _UP:
        return
    try:
        # This one flag only: all others stay as they are.
        links.link('set', index=message['index'], state='up')
    except NetlinkError as error:
        if error.code != errno.ENODEV:
            raise
    else:
        print(f'{name} was down, it is up again', flush=True)


if __name__ == '__main__':
    main()
