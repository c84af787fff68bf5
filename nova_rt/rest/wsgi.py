# SPDX-License-Identifier: Apache-2.0
"""The WSGI entry of nova-rt-api, for uWSGI and other servers.

``OS_NOVA_CONFIG_DIR`` and ``OS_NOVA_CONFIG_FILES`` name the configuration, as
for nova-api. Without them, it is ``nova.conf`` and, where it is there,
``nova-rt-api.conf``, both in ``/etc/nova``.
"""

# First: Nova has native threads in this process.
from nova import monkey_patch  # isort: skip

monkey_patch.patch(backend='threading')

import os  # noqa: E402

from oslo_config import cfg  # noqa: E402

from nova_rt.rest import service  # noqa: E402

_FILE = 'nova.conf'
_OWN_FILE = 'nova-rt-api.conf'


def _list_files() -> list[str]:
    directory = os.environ.get('OS_NOVA_CONFIG_DIR', '/etc/nova').strip()
    names = os.environ.get('OS_NOVA_CONFIG_FILES')
    if names:
        return [os.path.join(directory, name) for name in names.split(';')]
    found = [os.path.join(directory, _FILE)]
    own = os.path.join(directory, _OWN_FILE)
    # Not left to the server: pyuwsgi runs in a Python that has read its
    # environment before "env" of the ini file adds to it.
    return [*found, own] if os.path.exists(own) else found


application = service.make(cfg.CONF, [], _list_files())
