# SPDX-License-Identifier: Apache-2.0
"""The table of the lab's services: commands, dependencies and files.

:mod:`lab.service` starts, watches and ends them.
"""

import pathlib

from lab import accounts, answers, config, paths, second, second_services, unit
from lab.node import services as node_services
from lab.paths import ETC, RUN, VAR
from lab.service import Service, Words, config_files, program, wsgi

_SCRIPTS = paths.VENV / 'bin'
_OVS = VAR / 'ovs'
_OVSDB = f'unix:{paths.OVSDB_SOCKET}'
_OVN = f'unix:{paths.OVN_SOCKET}'
_QUIET = '-vconsole:warn'
_RABBIT = ETC / 'rabbitmq'
_NEUTRON = ETC / 'neutron'
_NEUTRON_FILES = (_NEUTRON / 'neutron.conf', _NEUTRON / 'ml2_conf.ini')
_NOVA = ETC / 'nova'
_NOVA_FILES = (_NOVA / 'nova.conf', _NOVA / 'nova-database.conf')
_RT_FILES = (_NOVA / 'nova.conf', _NOVA / 'nova-rt-conductor.conf')
_COMPUTE_FILES = (_NOVA / 'nova.conf', _NOVA / 'nova-compute.conf')
_EXPORTER_FILES = (_NOVA / config.EXPORTER,)
_STOCK_FILES = (_NOVA / 'nova.conf', _NOVA / accounts.STOCK)
_COMPUTE_NEEDS = ('nova-conductor', 'placement', 'libvirtd', 'ovs-vswitchd')
# The list of nova_rt's installed files with their checksums, for the services
# that have nova_rt in them: a new wheel makes them other programs.
_WHEEL = tuple(
    sorted(
        paths.VENV.glob('lib/python*/site-packages/nova_rt-*.dist-info/RECORD')
    )
)

# In the order of their start.
_SERVICES = (
    # What the rest stands on
    Service(
        'memcached',
        ('memcached', '-u', 'root', '-l', '127.0.0.1', '-m', '64'),
        ready=answers.at_port(11211),
    ),
    Service(
        'rabbitmq',
        ('/usr/lib/rabbitmq/bin/rabbitmq-server',),
        ready=answers.at_port(5672),
        files=(_RABBIT / 'rabbitmq.conf', _RABBIT / 'advanced.config'),
        environment=(
            ('HOME', f'{VAR}/rabbitmq'),
            ('RABBITMQ_NODENAME', 'nova-rt-lab@localhost'),
            ('RABBITMQ_MNESIA_BASE', f'{VAR}/rabbitmq/mnesia'),
            ('RABBITMQ_LOG_BASE', str(paths.LOG)),
            ('RABBITMQ_CONFIG_FILE', f'{_RABBIT}/rabbitmq.conf'),
            ('RABBITMQ_ADVANCED_CONFIG_FILE', f'{_RABBIT}/advanced.config'),
            ('RABBITMQ_ENABLED_PLUGINS_FILE', f'{_RABBIT}/enabled_plugins'),
            ('RABBITMQ_PID_FILE', f'{RUN}/rabbitmq-beam.pid'),
            ('RABBITMQ_DIST_PORT', '25672'),
            ('RABBITMQ_CONF_ENV_FILE', '/dev/null'),
            ('RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS', '+S 2:2 +sbwt none'),
            ('ERL_EPMD_ADDRESS', '127.0.0.1'),
            ('ERL_MAX_PORTS', '4096'),
        ),
    ),
    Service(
        'mariadb',
        (
            'mariadbd',
            '--no-defaults',
            '--user=root',
            f'--datadir={VAR}/mysql',
            f'--socket={paths.MYSQL_SOCKET}',
            f'--pid-file={RUN}/mariadb.pid',
            '--skip-networking',
            '--max-connections=400',
            '--innodb-buffer-pool-size=128M',
            # Commits survive the death of the server, not the machine's.
            '--innodb-flush-log-at-trx-commit=2',
            '--skip-log-bin',
            '--performance-schema=OFF',
            '--character-set-server=utf8mb4',
        ),
        needs=('mariadb-install',),
        ready=answers.at_socket(paths.MYSQL_SOCKET),
    ),
    Service(
        'libvirtd',
        program('reaper.py', 'libvirtd'),
        ready=answers.to('virsh', '-c', 'lxc:///', 'list'),
        files=(
            ETC / 'libvirt' / 'libvirtd.conf',
            ETC / 'libvirt' / 'lxc.conf',
        ),
    ),
    # The network
    Service(
        'ovsdb',
        (
            'ovsdb-server',
            _OVS / 'conf.db',
            f'--remote=p{_OVSDB}',
            # For os-vif, which runs as user nova.
            '--remote=ptcp:6640:127.0.0.1',
            '--unixctl=/run/openvswitch/ovsdb-server.ctl',
            _QUIET,
        ),
        needs=('ovs-databases',),
        ready=answers.at_socket(paths.OVSDB_SOCKET),
    ),
    Service(
        'ovn-db',
        (
            'ovsdb-server',
            _OVS / 'nb.db',
            _OVS / 'sb.db',
            f'--remote=p{_OVN}',
            '--unixctl=/run/ovn/ovn-db.ctl',
            _QUIET,
        ),
        needs=('ovs-databases',),
        ready=answers.at_socket(paths.OVN_SOCKET),
    ),
    Service(
        'ovs-vswitchd',
        (
            'ovs-vswitchd',
            _OVSDB,
            '--unixctl=/run/openvswitch/ovs-vswitchd.ctl',
            _QUIET,
        ),
        needs=('switch-settings',),
        ready=answers.at_socket(
            pathlib.Path('/run/openvswitch/ovs-vswitchd.ctl')
        ),
    ),
    Service('taps', program('taps.py')),
    Service(
        'ovn-northd',
        (
            'ovn-northd',
            f'--ovnnb-db={_OVN}',
            f'--ovnsb-db={_OVN}',
            '--unixctl=/run/ovn/ovn-northd.ctl',
            '--n-threads=1',
            _QUIET,
        ),
        needs=('ovn-db',),
    ),
    Service(
        'ovn-controller',
        ('ovn-controller', _OVSDB, _QUIET),
        needs=('bridges', 'ovn-db'),
    ),
    # OpenStack
    wsgi(
        'keystone',
        'keystone.wsgi.api',
        port=5000,
        threads=6,
        needs=('keystone-db', 'memcached'),
        files=(ETC / 'keystone' / 'keystone.conf',),
        environment=(('OS_KEYSTONE_CONFIG_DIR', f'{ETC}/keystone'),),
    ),
    wsgi(
        'placement',
        'placement.wsgi.api',
        port=8778,
        threads=6,
        needs=('placement-db', 'catalog'),
        files=(ETC / 'placement' / 'placement.conf',),
        environment=(('OS_PLACEMENT_CONFIG_DIR', f'{ETC}/placement'),),
    ),
    wsgi(
        'glance',
        'glance.wsgi.api',
        port=9292,
        threads=6,
        needs=('glance-db', 'catalog'),
        files=(ETC / 'glance' / 'glance-api.conf',),
        environment=(('OS_GLANCE_CONFIG_DIR', f'{ETC}/glance'),),
    ),
    wsgi(
        'neutron',
        'neutron.wsgi.api',
        port=9696,
        threads=8,
        needs=('neutron-db', 'catalog', 'rabbitmq', 'ovn-db'),
        files=_NEUTRON_FILES,
        environment=(
            ('ASGI_WORKERS', '1'),
            ('OS_NEUTRON_CONFIG_DIR', str(_NEUTRON)),
            ('OS_NEUTRON_CONFIG_FILES', 'neutron.conf;ml2_conf.ini'),
        ),
    ),
    Service(
        'neutron-maintenance',
        (
            _SCRIPTS / 'neutron-ovn-maintenance-worker',
            *config_files(_NEUTRON_FILES),
        ),
        needs=('neutron',),
        files=_NEUTRON_FILES,
    ),
    Service(
        'nova-conductor',
        (_SCRIPTS / 'nova-conductor', *config_files(_NOVA_FILES)),
        needs=('nova-db', 'rabbitmq', 'catalog'),
        files=(*_NOVA_FILES, *_WHEEL),
    ),
    Service(
        'nova-scheduler',
        (_SCRIPTS / 'nova-rt-scheduler', *config_files(_NOVA_FILES)),
        needs=('nova-db', 'rabbitmq', 'catalog'),
        files=(*_NOVA_FILES, *_WHEEL),
    ),
    Service(
        'nova-rt-conductor',
        (_SCRIPTS / 'nova-rt-conductor', *config_files(_RT_FILES)),
        needs=('nova-rt-db', 'rabbitmq'),
        ready=answers.by_http(9840),
        files=(*_RT_FILES, *_WHEEL),
    ),
    wsgi(
        'nova-api',
        'nova.wsgi.osapi_compute',
        port=8774,
        threads=8,
        needs=('nova-db', 'rabbitmq', 'catalog'),
        files=(*_NOVA_FILES, _NOVA / 'api-paste.ini', *_WHEEL),
        environment=(
            ('OS_NOVA_CONFIG_DIR', str(_NOVA)),
            (
                'OS_NOVA_CONFIG_FILES',
                'api-paste.ini;nova.conf;nova-database.conf',
            ),
        ),
    ),
    wsgi(
        'nova-rt-api',
        'nova_rt.rest.wsgi',
        port=8798,
        threads=4,
        needs=('nova-rt-db', 'nova-db', 'rabbitmq', 'catalog'),
        files=(*_NOVA_FILES, _RT_FILES[-1], *_WHEEL),
        environment=(
            ('OS_NOVA_CONFIG_DIR', str(_NOVA)),
            (
                'OS_NOVA_CONFIG_FILES',
                'nova.conf;nova-database.conf;nova-rt-conductor.conf',
            ),
        ),
    ),
)
# As systemd's DynamicUser: nobody, in no group of Nova's.
_EXPORTER = Service(
    'nova-rt-exporter',
    (
        'setpriv',
        '--reuid=65534',
        '--regid=65534',
        '--clear-groups',
        '--no-new-privs',
        '--inh-caps=-all',
        '--bounding-set=-all',
        _SCRIPTS / 'nova-rt-exporter',
        *config_files(_EXPORTER_FILES),
    ),
    needs=('libvirtd',),
    ready=answers.by_http(9839),
    files=(*_EXPORTER_FILES, *_WHEEL),
)
#: Services that a lab has only for a compute on this machine's own kernel.
OF_A_COMPUTE = {'libvirtd', 'taps', 'nova-compute', 'nova-rt-exporter'}
_PROMETHEUS = Service(
    'prometheus',
    (
        'prometheus',
        f'--config.file={ETC}/prometheus/prometheus.yml',
        f'--storage.tsdb.path={VAR}/prometheus',
        '--storage.tsdb.retention.time=1d',
        '--web.listen-address=127.0.0.1:9090',
        '--log.level=warn',
    ),
    ready=answers.by_http(9090),
    files=tuple(
        ETC / 'prometheus' / name for name in ('prometheus.yml', 'rules.yaml')
    ),
)
# nova-compute runs by the unit of a distribution with nova_rt's drop-in.
UNIT = unit.read(
    (
        paths.TEMPLATES / 'nova-compute.service',
        paths.CHECKOUT
        / 'etc/nova_rt/systemd/nova-compute.service.d/nova-rt.conf',
    )
)


def _compute(command: Words, files: tuple[pathlib.Path, ...]) -> Service:
    return Service(
        'nova-compute',
        UNIT.around(str(word) for word in command),
        needs=_COMPUTE_NEEDS,
        files=(*files, *_WHEEL),
        environment=(('HOME', str(accounts.HOME)), ('USER', UNIT.user)),
        directory=accounts.HOME,
        stop_s=UNIT.stop_s,
    )


_COMPUTE = _compute(accounts.command(UNIT), _COMPUTE_FILES)
# Nova's own, to compare with.
_STOCK_COMPUTE = _compute(
    (
        paths.VENV / 'bin' / 'python',
        '-P',
        config.STOCK_COMPUTE,
        *config_files(_STOCK_FILES),
    ),
    (*_STOCK_FILES, config.STOCK_COMPUTE),
)


def table(stock_compute: bool = False) -> dict[str, Service]:
    """Return all services by name, in the order of their start.

    :param stock_compute: run Nova's own nova-compute instead of ours.
    """
    compute = _STOCK_COMPUTE if stock_compute else _COMPUTE
    services = (*_SERVICES, compute, _EXPORTER, _PROMETHEUS)
    found = {
        service.name: service
        for service in services
        if second.first() or service.name not in OF_A_COMPUTE
    }
    if second.wanted():
        found |= second_services.beside(found)
    return found | node_services.beside()
