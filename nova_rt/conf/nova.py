# SPDX-License-Identifier: Apache-2.0
"""Options of Nova that programs without Nova read as well."""

from oslo_config import cfg

#: With the default of the distributions' packages, like the next one.
STATE_PATH = cfg.StrOpt(
    'state_path',
    default='/var/lib/nova',
    help='Directory of Nova, as in its own configuration.',
)

_OPTS = (
    STATE_PATH,
    cfg.StrOpt('instances_path', default='$state_path/instances'),
)

_CPU_OPTS = (cfg.StrOpt('cpu_shared_set'), cfg.StrOpt('cpu_dedicated_set'))
_POWER_OPT = cfg.BoolOpt('cpu_power_management', default=False)


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


def read_cpus(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Read which CPUs Nova gives to servers that are not real-time.

    :param conf: where Nova's own options may be registered, or not
    :returns: the option that gives them, for people to read -> the CPUs, as
        Nova writes lists
    """
    for group, opts in (('compute', _CPU_OPTS), ('libvirt', (_POWER_OPT,))):
        for opt in opts:
            if group not in conf or opt.name not in conf[group]:
                conf.register_opt(opt, group=group)
    found = {}
    if conf.compute.cpu_shared_set:
        found['[compute] cpu_shared_set'] = conf.compute.cpu_shared_set
    if conf.compute.cpu_dedicated_set:
        name = '[compute] cpu_dedicated_set'
        if conf.libvirt.cpu_power_management:
            name += ', which [libvirt] cpu_power_management switches off'
        found[name] = conf.compute.cpu_dedicated_set
    return found
