# SPDX-License-Identifier: Apache-2.0
"""Options of nova-rt-conductor as a client of Nova's API."""

import functools

from oslo_config import cfg

from nova_rt.conf import groups

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


@functools.cache
def list_opts() -> list[cfg.Opt]:
    """Make the options, which are those of keystoneauth1.

    :returns: the same ones each time
    """
    # Here, because its import takes longer than all others of nova_rt.conf,
    # and most programs have no use for it.
    from keystoneauth1 import loading

    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(
        adapter,
        service_type='compute',
        valid_interfaces=['internal', 'public'],
    )
    session = loading.get_session_conf_options()
    # Without one, a Keystone that hangs would keep a thread of the conductor,
    # and the changes of a host, for ever.
    cfg.set_defaults(session, timeout=30)
    return [
        *loading.get_auth_common_conf_options(),
        *session,
        *adapter,
    ]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options, if they are not registered yet."""
    groups.register(conf, [(GROUP, list_opts())])


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Tell whether there are credentials for Nova's API.

    :param conf: where these options may be registered, or not
    :returns: whether there are
    """
    register_opts(conf)
    return conf.nova_rt_nova.auth_type is not None
