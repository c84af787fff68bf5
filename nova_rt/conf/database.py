# SPDX-License-Identifier: Apache-2.0
"""Options of the database that nova-rt-conductor fills."""

import copy

from oslo_config import cfg
from oslo_db import options as db_options

GROUP = cfg.OptGroup(
    'nova_rt_database',
    title='Database of nova_rt',
    help="""
Database in which nova-rt-conductor keeps the history of reservations.
nova-rt-manage reads it.

Leave this group out of the configuration of compute hosts: nova-rt-compute
does not connect to this database.
""",
)

# Copies: oslo.config resolves deprecated names by the option, and Nova has the
# same options in other groups.
_CONNECTION_OPTS = [
    copy.deepcopy(opt)
    for opt in db_options.database_opts
    if opt.name != 'use_db_reconnect'
]

_RETENTION_OPTS = [
    cfg.IntOpt(
        'keep_history_days',
        default=400,
        min=1,
        help="""
Days for which the events of reservations are kept.
""",
    ),
]

OPTS = _CONNECTION_OPTS + _RETENTION_OPTS
