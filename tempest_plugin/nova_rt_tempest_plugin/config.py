# SPDX-License-Identifier: Apache-2.0
"""The options of the tests.

The defaults fit every cloud with nova_rt, and give no access to its hosts:
tests that need more skip, and name the option that they miss.
"""

from oslo_config import cfg

SERVICE_OPTION = cfg.BoolOpt(
    'nova_rt',
    default=True,
    help='Whether the cloud has compute hosts with nova_rt.',
)

GROUP = cfg.OptGroup(
    'nova_rt',
    title='Real-time flavors',
    help='What the tests of nova_rt need to know of the cloud.',
)

# What the cloud offers
_CLOUD = [
    cfg.StrOpt(
        'reservation',
        default='20000/100000',
        help='Reservation of most servers of the tests. Three of them must '
        'fit on a host, and each kernel of the cloud must be able to keep to '
        'it: one that only limits acts at its tick.',
    ),
    cfg.StrOpt(
        'small_reservation',
        default='10000/100000',
        help='A reservation of half as much, with the same period.',
    ),
    cfg.StrOpt(
        'enforcement',
        default='limit',
        choices=[
            ('limit', 'Any host with nova_rt will do.'),
            ('guarantee', 'Only hosts whose kernel guarantees will do.'),
        ],
        help='``rt:enforcement`` of the flavors of the tests.',
    ),
    cfg.IntOpt(
        'flavor_ram',
        default=128,
        min=1,
        help='Memory of the flavors of the tests, in MiB.',
    ),
    cfg.IntOpt(
        'flavor_disk',
        default=1,
        min=0,
        help='Disk of the flavors of the tests, in GiB.',
    ),
    cfg.StrOpt(
        'hints',
        default='lower',
        choices=['deny', 'lower', 'any'],
        help='``[nova_rt] hints`` of the cloud.',
    ),
    cfg.StrOpt(
        'refusal_details',
        default='modest',
        choices=['modest', 'full'],
        help='``[nova_rt] refusal_details`` of the cloud.',
    ),
    cfg.BoolOpt(
        'hint_middleware',
        default=True,
        help='Whether nova-api has the filter ``rt_hints``. Without it, a bad '
        'hint is found by the scheduler, and the tests of its answers skip.',
    ),
    cfg.BoolOpt(
        'api',
        default=False,
        help='Whether the catalog has nova-rt-api, as a service of the type '
        '``rt``. Without it, changes of reservations are not tested.',
    ),
    cfg.BoolOpt(
        'unified_limits',
        default=False,
        help='Whether Nova takes the limit of ``class:CUSTOM_RT_BANDWIDTH`` '
        'from Keystone (``[quota] driver`` and '
        '``unified_limits_resource_list``).',
    ),
    cfg.BoolOpt(
        'user_namespaces',
        default=True,
        help='Whether containers have user namespaces (``[nova_rt] '
        'id_pool``).',
    ),
]

# How the tests look at hosts
_HOSTS = [
    cfg.StrOpt(
        'host_access',
        default='none',
        choices=[
            ('none', 'Tests that look at hosts skip.'),
            ('local', 'This machine is the only compute host.'),
            ('ssh', 'Every compute host can be reached over SSH.'),
        ],
        help='How the tests run commands on compute hosts. The commands need '
        'root, read control groups and /proc, and ask libvirt; some tests '
        'change a control group of their own servers and see it repaired.',
    ),
    cfg.DictOpt(
        'host_addresses',
        default={},
        help='Addresses of compute hosts for SSH, by the name that Nova has '
        'for the host. A host that is missing is reached by its name.',
    ),
    cfg.StrOpt(
        'host_user', default='root', help='Who logs in to compute hosts.'
    ),
    cfg.StrOpt(
        'host_key_file',
        help='Private key to log in with; without it, the keys of the agent '
        'and of ``~/.ssh`` are tried.',
    ),
    cfg.PortOpt('host_port', default=22, help='Port of SSH on the hosts.'),
    cfg.BoolOpt(
        'host_sudo',
        default=False,
        help='Whether commands on hosts are run by ``sudo -n``.',
    ),
    cfg.IntOpt(
        'host_timeout',
        default=60,
        min=1,
        help='Seconds after which a command on a host has failed.',
    ),
    cfg.StrOpt(
        'libvirt_uri',
        default='lxc:///',
        help='Address of libvirt on a compute host.',
    ),
    cfg.DictOpt(
        'restart_commands',
        default={},
        help='Commands that restart services on a compute host, by the name '
        'of the service: ``nova-compute``, ``nova-rt-exporter``, '
        '``nova-rt-conductor``. For example '
        '``nova-compute:systemctl restart nova-compute``. Tests that restart '
        'a service that is not here skip.',
    ),
]

# How a host dies
_DEATH = [
    cfg.StrOpt(
        'mortal_host',
        help='Compute host that the tests may let die, by the name that Nova '
        'has for it, with all servers that it has. Without it, evacuation is '
        'not tested.',
    ),
    cfg.StrOpt(
        'kill_command',
        help='Command that lets ``mortal_host`` die, as a power cut does, for '
        'example through its management controller. When it returns, nothing '
        'may run there any more, or a server would run twice.',
    ),
    cfg.StrOpt(
        'revive_command',
        help='Command that starts ``mortal_host`` again. It must succeed as '
        'well if the host runs.',
    ),
]

# What else tells of servers
_REPORTS = [
    cfg.StrOpt(
        'manage_command',
        help='Command that runs nova-rt-manage with the configuration files '
        'of nova-api and of nova-rt-conductor: records and history. '
        'Without it, they are not compared.',
    ),
    cfg.StrOpt(
        'manage_host',
        help='Address of the machine of ``manage_command``, '
        '``kill_command`` and ``revive_command``, reached as compute hosts '
        'are; unset: the machine that runs the tests.',
    ),
    cfg.StrOpt(
        'exporter_url',
        help='Address of the metrics of nova-rt-exporter, with ``{host}`` for '
        'the address of a compute host, for example '
        '``http://{host}:9839/metrics``. Without it, they are not compared.',
    ),
    cfg.StrOpt(
        'rtprobe',
        help='Program rtprobe of the lab of nova_rt, which asks the service '
        'of the same name in containers of ``[compute] image_ref``. Without '
        'it, response times are not measured. One server of that test '
        'reserves 32615/100000.',
    ),
]

# How long things may take
_TIMES = [
    cfg.IntOpt(
        'settle_timeout',
        default=60,
        min=1,
        help='Seconds until reports have come and all that a deleted server '
        'held is given back.',
    ),
    cfg.IntOpt(
        'repair_timeout',
        default=150,
        min=1,
        help='Seconds until nova-rt-compute has repaired a reservation: more '
        'than ``[nova_rt] verify_interval``.',
    ),
    cfg.IntOpt(
        'measure_seconds',
        default=10,
        min=1,
        help='Seconds for which CPU time is measured.',
    ),
    cfg.IntOpt(
        'stress_seconds',
        default=60,
        min=0,
        help='Seconds for which servers are created and deleted at the same '
        'time; 0: the test skips.',
    ),
    cfg.IntOpt(
        'stress_workers',
        default=4,
        min=1,
        help='Threads that create and delete servers in that test.',
    ),
]

OPTIONS = [*_CLOUD, *_HOSTS, *_DEATH, *_REPORTS, *_TIMES]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by group, for the manual and for Tempest."""
    return [('service_available', [SERVICE_OPTION]), (GROUP.name, OPTIONS)]
