# SPDX-License-Identifier: Apache-2.0
"""The services of the lab: what each runs, and how to tell that it works."""

from collections.abc import Callable
import dataclasses
import http.client
import pathlib
import socket
import subprocess

from lab import paths
from lab.service import Service

# Those that have nova_rt in them: a new wheel makes them other programs.
_NOVA = ('nova-api', 'nova-conductor', 'nova-scheduler', 'nova-compute')


def table(stock_compute: bool = False) -> dict[str, Service]:
    """Return all services by name, in the order of their start.

    :param stock_compute: run Nova's own nova-compute instead of ours.
    """
    services = [
        *_infrastructure(),
        *_network(),
        *_control(),
        _compute(stock_compute),
    ]
    return {
        service.name: dataclasses.replace(service, also=_installed_nova_rt)
        if service.name in _NOVA
        else service
        for service in services
    }


def _infrastructure() -> list[Service]:
    mysql = paths.MYSQL_SOCKET
    return [
        Service(
            'memcached',
            ('memcached', '-u', 'root', '-l', '127.0.0.1', '-m', '64'),
            ready=_port(11211),
        ),
        Service(
            'rabbitmq',
            ('/usr/lib/rabbitmq/bin/rabbitmq-server',),
            ready=_port(5672),
            files=(
                paths.ETC / 'rabbitmq' / 'rabbitmq.conf',
                paths.ETC / 'rabbitmq' / 'advanced.config',
            ),
            environment=_rabbit_environment(),
        ),
        Service(
            'mariadb',
            (
                'mariadbd',
                '--no-defaults',
                '--user=root',
                f'--datadir={paths.VAR}/mysql',
                f'--socket={mysql}',
                f'--pid-file={paths.RUN}/mariadb.pid',
                '--skip-networking',
                '--max-connections=400',
                '--innodb-buffer-pool-size=128M',
                '--innodb-flush-log-at-trx-commit=0',
                '--skip-log-bin',
                '--performance-schema=OFF',
                '--character-set-server=utf8mb4',
            ),
            needs=('mariadb-install',),
            ready=_socket(mysql),
        ),
        Service(
            'libvirtd',
            (
                paths.VENV / 'bin' / 'python',
                '-P',
                paths.CHECKOUT / 'lab' / 'reaper.py',
                'libvirtd',
            ),
            ready=_libvirt_answers,
            files=(
                paths.ETC / 'libvirt' / 'libvirtd.conf',
                paths.ETC / 'libvirt' / 'lxc.conf',
            ),
        ),
    ]


def _rabbit_environment() -> tuple[tuple[str, str], ...]:
    etc = paths.ETC / 'rabbitmq'
    var = paths.VAR / 'rabbitmq'
    return (
        ('HOME', str(var)),
        ('RABBITMQ_NODENAME', 'nova-rt-lab@localhost'),
        ('RABBITMQ_MNESIA_BASE', f'{var}/mnesia'),
        ('RABBITMQ_LOG_BASE', str(paths.LOG)),
        ('RABBITMQ_CONFIG_FILE', f'{etc}/rabbitmq.conf'),
        ('RABBITMQ_ADVANCED_CONFIG_FILE', f'{etc}/advanced.config'),
        ('RABBITMQ_ENABLED_PLUGINS_FILE', f'{etc}/enabled_plugins'),
        ('RABBITMQ_PID_FILE', f'{paths.RUN}/rabbitmq-beam.pid'),
        ('RABBITMQ_DIST_PORT', '25672'),
        ('RABBITMQ_CONF_ENV_FILE', '/dev/null'),
        ('RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS', '+S 2:2 +sbwt none'),
        ('ERL_EPMD_ADDRESS', '127.0.0.1'),
        ('ERL_MAX_PORTS', '4096'),
    )


def _network() -> list[Service]:
    var = paths.VAR / 'ovs'
    ovsdb = f'unix:{paths.OVSDB_SOCKET}'
    ovn = f'unix:{paths.OVN_SOCKET}'
    quiet = '-vconsole:warn'
    return [
        Service(
            'ovsdb',
            (
                'ovsdb-server',
                var / 'conf.db',
                f'--remote=p{ovsdb}',
                '--unixctl=/run/openvswitch/ovsdb-server.ctl',
                quiet,
            ),
            needs=('ovs-databases',),
            ready=_socket(paths.OVSDB_SOCKET),
        ),
        Service(
            'ovn-db',
            (
                'ovsdb-server',
                var / 'nb.db',
                var / 'sb.db',
                f'--remote=p{ovn}',
                '--unixctl=/run/ovn/ovn-db.ctl',
                quiet,
            ),
            needs=('ovs-databases',),
            ready=_socket(paths.OVN_SOCKET),
        ),
        Service(
            'ovs-vswitchd',
            (
                'ovs-vswitchd',
                ovsdb,
                '--unixctl=/run/openvswitch/ovs-vswitchd.ctl',
                quiet,
            ),
            needs=('switch-settings',),
            ready=_socket(pathlib.Path('/run/openvswitch/ovs-vswitchd.ctl')),
        ),
        Service(
            'taps',
            (
                paths.VENV / 'bin' / 'python',
                '-P',
                paths.CHECKOUT / 'lab' / 'taps.py',
            ),
        ),
        Service(
            'ovn-northd',
            (
                'ovn-northd',
                f'--ovnnb-db={ovn}',
                f'--ovnsb-db={ovn}',
                '--unixctl=/run/ovn/ovn-northd.ctl',
                '--n-threads=1',
                quiet,
            ),
            needs=('ovn-db',),
        ),
        Service(
            'ovn-controller',
            ('ovn-controller', ovsdb, quiet),
            needs=('bridges', 'ovn-db'),
        ),
    ]


def _control() -> list[Service]:
    etc = paths.ETC
    nova = etc / 'nova'
    neutron = etc / 'neutron'
    nova_files = (nova / 'nova.conf', nova / 'nova-database.conf')
    nova_args = (
        '--config-file',
        nova_files[0],
        '--config-file',
        nova_files[1],
    )
    scripts = paths.VENV / 'bin'
    return [
        _wsgi(
            'keystone',
            'keystone.wsgi.api',
            port=5000,
            threads=6,
            needs=('keystone-db', 'memcached'),
            files=(etc / 'keystone' / 'keystone.conf',),
            environment=(('OS_KEYSTONE_CONFIG_DIR', f'{etc}/keystone'),),
        ),
        _wsgi(
            'placement',
            'placement.wsgi.api',
            port=8778,
            threads=6,
            needs=('placement-db', 'catalog'),
            files=(etc / 'placement' / 'placement.conf',),
            environment=(('OS_PLACEMENT_CONFIG_DIR', f'{etc}/placement'),),
        ),
        _wsgi(
            'glance',
            'glance.wsgi.api',
            port=9292,
            threads=6,
            needs=('glance-db', 'catalog'),
            files=(etc / 'glance' / 'glance-api.conf',),
            environment=(('OS_GLANCE_CONFIG_DIR', f'{etc}/glance'),),
        ),
        _wsgi(
            'neutron',
            'neutron.wsgi.api',
            port=9696,
            threads=8,
            needs=('neutron-db', 'catalog', 'rabbitmq', 'ovn-db'),
            files=(neutron / 'neutron.conf', neutron / 'ml2_conf.ini'),
            environment=(
                ('ASGI_WORKERS', '1'),
                ('OS_NEUTRON_CONFIG_DIR', str(neutron)),
                ('OS_NEUTRON_CONFIG_FILES', 'neutron.conf;ml2_conf.ini'),
            ),
        ),
        Service(
            'neutron-maintenance',
            (
                scripts / 'neutron-ovn-maintenance-worker',
                '--config-file',
                neutron / 'neutron.conf',
                '--config-file',
                neutron / 'ml2_conf.ini',
            ),
            needs=('neutron',),
            files=(neutron / 'neutron.conf', neutron / 'ml2_conf.ini'),
        ),
        Service(
            'nova-conductor',
            (scripts / 'nova-conductor', *nova_args),
            needs=('nova-db', 'rabbitmq', 'catalog'),
            files=nova_files,
        ),
        Service(
            'nova-scheduler',
            (scripts / 'nova-rt-scheduler', *nova_args),
            needs=('nova-db', 'rabbitmq', 'catalog'),
            files=nova_files,
        ),
        _wsgi(
            'nova-api',
            'nova.wsgi.osapi_compute',
            port=8774,
            threads=8,
            needs=('nova-db', 'rabbitmq', 'catalog'),
            files=(*nova_files, nova / 'api-paste.ini'),
            environment=(
                ('OS_NOVA_CONFIG_DIR', str(nova)),
                (
                    'OS_NOVA_CONFIG_FILES',
                    'api-paste.ini;nova.conf;nova-database.conf',
                ),
            ),
        ),
    ]


def _wsgi(
    name: str,
    module: str,
    *,
    port: int,
    threads: int,
    needs: tuple[str, ...],
    files: tuple[pathlib.Path, ...],
    environment: tuple[tuple[str, str], ...],
) -> Service:
    # -P: the script's directory must not be searched for modules.
    return Service(
        name,
        (
            paths.VENV / 'bin' / 'python',
            '-P',
            paths.CHECKOUT / 'lab' / 'serve.py',
            module,
            str(port),
            str(threads),
        ),
        needs=needs,
        ready=_http(port),
        files=files,
        environment=environment,
    )


def _compute(stock: bool) -> Service:
    nova = paths.ETC / 'nova'
    own = nova / ('nova-compute-stock.conf' if stock else 'nova-compute.conf')
    if stock:
        program: tuple[str | pathlib.Path, ...] = (
            paths.VENV / 'bin' / 'python',
            '-P',
            paths.CHECKOUT / 'lab' / 'stock_compute.py',
        )
    else:
        program = (paths.VENV / 'bin' / 'nova-rt-compute',)
    return Service(
        'nova-compute',
        (
            *program,
            '--config-file',
            nova / 'nova.conf',
            '--config-file',
            own,
        ),
        needs=('nova-conductor', 'placement', 'libvirtd', 'ovs-vswitchd'),
        files=(nova / 'nova.conf', own),
        stop_s=30,
    )


def _port(port: int) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            socket.create_connection(('127.0.0.1', port), 2).close()
        except OSError:
            return False
        return True

    return answers


def _http(port: int) -> Callable[[], bool]:
    # The port is open before the application is loaded; any answer will do.
    def answers() -> bool:
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
        try:
            connection.request('GET', '/')
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    return answers


def _socket(path: pathlib.Path) -> Callable[[], bool]:
    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                return False
        return True

    return answers


def _libvirt_answers() -> bool:
    answer = subprocess.run(
        ['virsh', '-c', 'lxc:///', 'list'],
        capture_output=True,
        check=False,
        timeout=30,
    )
    return answer.returncode == 0


def _installed_nova_rt() -> bytes:
    # The list of the installed files with their checksums.
    packages = paths.VENV / 'lib'
    records = sorted(packages.glob('python*/site-packages/nova_rt-*/RECORD'))
    return b''.join(record.read_bytes() for record in records)
