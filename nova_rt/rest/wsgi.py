# SPDX-License-Identifier: Apache-2.0
"""The WSGI entry of nova-rt-api, for uWSGI and other servers.

``OS_NOVA_CONFIG_DIR`` and ``OS_NOVA_CONFIG_FILES`` name the configuration, as
for nova-api.
"""

# First: Nova has native threads in this process.
from nova import monkey_patch  # isort: skip

monkey_patch.patch(backend='threading')

import os  # noqa: E402

from oslo_config import cfg  # noqa: E402

from nova_rt.rest import service  # noqa: E402

_FILES = 'nova.conf'


def _list_files() -> list[str]:
    directory = os.environ.get('OS_NOVA_CONFIG_DIR', '/etc/nova').strip()
    names = os.environ.get('OS_NOVA_CONFIG_FILES') or _FILES
    return [os.path.join(directory, name) for name in names.split(';')]


application = service.make(cfg.CONF, [], _list_files())
