# SPDX-License-Identifier: Apache-2.0
"""Options of the database that nova-rt-conductor fills."""

import copy

from oslo_config import cfg
from oslo_db import options as db_options

GROUP = cfg.OptGroup(
    'nova_rt_database',
    title='Database of nova_rt',
    help="""
Database in which nova-rt-conductor stores the reports of compute services.
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
        'keep_usage_days',
        default=400,
        min=1,
        deprecated_name='keep_hour_days',
        help="""
Days for which the usage of servers is kept.

A server has one row for each hour, and one more for each host that it was on:
1.6 MB in 400 days, 160 GB for 100,000 servers. If you export usage to your
billing each month, 62 days suffice.
""",
    ),
    cfg.IntOpt(
        'keep_history_days',
        default=400,
        min=1,
        help="""
Days for which the history of servers is kept.

This also applies to servers that were released, and to hosts that no longer
report.
""",
    ),
]

OPTS = _CONNECTION_OPTS + _RETENTION_OPTS
