# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-conductor as a client of Nova's API."""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = cfg.OptGroup(
    'nova_rt_nova',
    title="Nova's API",
    help="""
Credentials with which nova-rt-conductor asks Nova to move a server, for
changes of reservations with ``on_no_room = migrate``. Without ``auth_type``,
such changes are refused.

Use a user of its own with the role ``admin``, or one that Nova's policies let
migrate servers, confirm that, and read their actions. The options of the
plug-in that ``auth_type`` names belong here, too: ``auth_url``, ``username``,
``password`` and so on. nova-rt-api and nova-rt-manage read ``auth_type``
alone, to learn whether there are credentials.
""",
)

#: Reason to refuse a change that may need a move.
NO_CREDENTIALS = (
    'this cloud does not migrate servers for changes: [nova_rt_nova] '
    'auth_type is not set'
)

_ADAPTER_OPTS = loading.get_adapter_conf_options(include_deprecated=False)
cfg.set_defaults(
    _ADAPTER_OPTS,
    service_type='compute',
    valid_interfaces=['internal', 'public'],
)

OPTS = [
    *loading.get_auth_common_conf_options(),
    *loading.get_session_conf_options(),
    *_ADAPTER_OPTS,
]


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Tell whether there are credentials for Nova's API.

    :returns: whether there are
    """
    return conf.nova_rt_nova.auth_type is not None
