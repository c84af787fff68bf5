# SPDX-License-Identifier: Apache-2.0
"""Options of Nova that a program without Nova reads: a privileged helper."""

from oslo_config import cfg

#: With the defaults of the distributions' packages.
_OPTS = (
    cfg.StrOpt('state_path', default='/var/lib/nova'),
    cfg.StrOpt('instances_path', default='$state_path/instances'),
)


def read_instances_path(conf: cfg.ConfigOpts) -> str:
    """Read where Nova keeps the directories of its servers.

    :param conf: where Nova's own options may be registered, or not
    :returns: a path
    """
    for opt in _OPTS:
        if opt.name not in conf:
            conf.register_opt(opt)
    path: str = conf.instances_path
    return path
