# SPDX-License-Identifier: Apache-2.0
"""Options of the program nova-rt-api."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'nova_rt_api',
    title='nova-rt-api',
    help='Options of the program nova-rt-api. A WSGI server such as uWSGI has '
    'its own.',
)

OPTS = [
    cfg.IPOpt(
        'listen_address',
        default='127.0.0.1',
        help='Address on which the program serves.',
    ),
    cfg.PortOpt(
        'port',
        default=8798,
        help='Port on which the program serves.',
    ),
]
