# SPDX-License-Identifier: Apache-2.0
"""Set-up between the services: databases, switches, catalogue, host mapping.

Each step may be run again at any time. The slow ones leave a mark with the
version that they were done for, and are skipped while it holds.
"""

from collections.abc import Callable, Sequence
import importlib.metadata
import pathlib
import subprocess
import time

from openstack.connection import Connection

from lab import (
    catalog,
    config,
    namespace,
    node,
    paths,
    second,
    service,
    services,
)
from lab.console import LabError, say

_DONE = paths.VAR / 'done'
_REGISTER_S = 300
_NODE_REGISTER_S = 1200
_NODE_POLL_S = 2
_RESTARTS = 3
SWITCH_SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
VSCTL = ('ovs-vsctl', '--timeout=20')


def run(
    name: str,
    command: Sequence[str | pathlib.Path],
    text: str | None = None,
    cwd: pathlib.Path = paths.VAR,
) -> None:
    """Run a set-up command, its output added to the log of this name.

    :param text: its standard input.
    :raises LabError: when it fails.
    """
    log = paths.LOG / f'{name}.log'
    with log.open('ab') as output:
        done = subprocess.run(
            command,
            input=text.encode() if text is not None else b'',
            stdout=output,
            stderr=output,
            env=service.base_environment(),
            cwd=cwd,
            check=False,
        )
    if done.returncode:
        raise LabError(f'{command[0]} failed ({name})', log)


def _once(name: str, version: str, work: Callable[[], None]) -> None:
    mark = _DONE / name
    if mark.exists() and mark.read_text() == version:
        return
    work()
    _DONE.mkdir(exist_ok=True)
    mark.write_text(version)
    say(f'{name} is done')


def mariadb_install() -> None:
    """Make the database server's own tables."""
    if (paths.VAR / 'mysql' / 'mysql').exists():
        return
    run(
        'mariadb-install',
        [
            'mariadb-install-db',
            '--no-defaults',
            '--user=root',
            f'--datadir={paths.VAR}/mysql',
            '--auth-root-authentication-method=socket',
            '--skip-test-db',
        ],
    )


def databases() -> None:
    """Create the empty databases."""

    def create() -> None:
        sql = ''.join(
            f'CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4;'
            for name in config.DATABASES
        )
        command = ['mariadb', '--no-defaults', '-uroot']
        run('databases', [*command, f'--socket={paths.MYSQL_SOCKET}'], sql)

    _once('databases', ' '.join(config.DATABASES), create)


def keystone_db() -> None:
    """Fill Keystone's database, keys, and the admin user."""
    url = config.AUTH_URL
    manage: list[str | pathlib.Path] = [
        paths.VENV / 'bin' / 'keystone-manage',
        '--config-file',
        paths.ETC / 'keystone' / 'keystone.conf',
    ]
    owner = ['--keystone-user', 'root', '--keystone-group', 'root']

    def fill() -> None:
        for keys in ('fernet', 'credential'):
            (paths.ETC / 'keystone' / keys).mkdir(mode=0o700, exist_ok=True)
            run('keystone-db', [*manage, f'{keys}_setup', *owner])
        run('keystone-db', [*manage, 'db_sync'])
        bootstrap = ['--bootstrap-password', config.PASSWORD]
        for interface in ('admin', 'internal', 'public'):
            bootstrap += [f'--bootstrap-{interface}-url', url]
        bootstrap += ['--bootstrap-region-id', 'RegionOne']
        run('keystone-db', [*manage, 'bootstrap', *bootstrap])

    _once('keystone-db', _version('keystone'), fill)


def placement_db() -> None:
    """Fill Placement's database."""
    _sync('placement', 'openstack-placement', 'placement.conf', ['db', 'sync'])


def glance_db() -> None:
    """Fill Glance's database."""
    _sync('glance', 'glance', 'glance-api.conf', ['db_sync'])


def _sync(name: str, package: str, file: str, arguments: list[str]) -> None:
    step = f'{name}-db'
    manage = paths.VENV / 'bin' / f'{name}-manage'
    configuration = f'--config-file={paths.ETC / name / file}'
    _once(
        step,
        _version(package),
        lambda: run(step, [manage, configuration, *arguments]),
    )


def neutron_db() -> None:
    """Fill Neutron's database."""
    etc = paths.ETC / 'neutron'
    command = [
        f'{paths.VENV}/bin/neutron-db-manage',
        f'--config-file={etc}/neutron.conf',
        f'--config-file={etc}/ml2_conf.ini',
        'upgrade',
        'heads',
    ]
    _once(
        'neutron-db', _version('neutron'), lambda: run('neutron-db', command)
    )


def nova_db() -> None:
    """Fill Nova's databases and make its cell."""

    def fill() -> None:
        cell0 = config.database_url('nova_cell0')
        map_cell0 = ['map_cell0', '--database_connection', cell0]
        _nova_manage('nova-db', ['api_db', 'sync'])
        _nova_manage('nova-db', ['cell_v2', *map_cell0])
        _nova_manage('nova-db', ['db', 'sync'])
        if not (_DONE / 'cell1').exists():
            _nova_manage('nova-db', ['cell_v2', 'create_cell', '--name=cell1'])
            _DONE.mkdir(exist_ok=True)
            (_DONE / 'cell1').touch()

    _once('nova-db', _version('nova'), fill)


def nova_rt_db() -> None:
    """Fill the database of nova_rt, or bring it to this version."""
    nova = paths.ETC / 'nova'
    command = [
        f'{paths.VENV}/bin/nova-rt-manage',
        f'--config-file={nova}/nova.conf',
        f'--config-file={nova}/nova-rt-conductor.conf',
        'db',
        'sync',
    ]
    _once(
        'nova-rt-db', _version('nova_rt'), lambda: run('nova-rt-db', command)
    )


def _nova_manage(step: str, arguments: list[str]) -> None:
    manage = paths.VENV / 'bin' / 'nova-manage'
    nova = paths.ETC / 'nova'
    options = [
        f'--config-file={nova}/{name}'
        for name in ('nova.conf', 'nova-database.conf')
    ]
    run(step, [manage, *options, *arguments])


def _version(package: str) -> str:
    return importlib.metadata.version(package)


def ovs_databases() -> None:
    """Make the empty databases of the switch and of OVN."""
    var = paths.VAR / 'ovs'
    make_database(var / 'conf.db', SWITCH_SCHEMA)
    make_database(var / 'nb.db', '/usr/share/ovn/ovn-nb.ovsschema')
    make_database(var / 'sb.db', '/usr/share/ovn/ovn-sb.ovsschema')


def make_database(database: pathlib.Path, schema: str) -> None:
    """Make an empty database of the switch, unless it is there."""
    if not database.exists():
        run('ovs-setup', ['ovsdb-tool', 'create', database, schema])


def switch_settings() -> None:
    """Set the identity of the switch and the place of OVN's databases."""
    set_switch(settings_of(namespace.HOST_NAME, '127.0.0.1'), vsctl)


def settings_of(host: str, address: str) -> dict[str, str]:
    """Return the settings of the switch of a machine."""
    return {
        'external-ids:system-id': host,
        'external-ids:hostname': host,
        'external-ids:ovn-remote': f'"unix:{paths.OVN_SOCKET}"',
        'external-ids:ovn-encap-type': 'geneve',
        'external-ids:ovn-encap-ip': address,
        'external-ids:ovn-bridge-datapath-type': 'netdev',
        'external-ids:ovn-bridge': 'br-int',
        'external-ids:ovn-bridge-mappings': '"physnet1:br-ex"',
        'external-ids:ovn-cms-options': 'enable-chassis-as-gw',
        # Without it TCP from a container hangs: the user-space switch does
        # not fill in checksums.
        'other_config:userspace-tso-enable': 'true',
    }


def set_switch(
    settings: dict[str, str], configure: Callable[..., None]
) -> None:
    """Give a switch its settings.

    :param configure: runs ovs-vsctl on its machine
    """
    configure('--no-wait', 'init')
    pairs = [f'{key}={value}' for key, value in settings.items()]
    configure('--no-wait', 'set', 'Open_vSwitch', '.', *pairs)


def bridges() -> None:
    """Make the bridges; the lab itself is the gateway of the network."""
    make_bridges(vsctl)
    deadline = time.monotonic() + 20
    while not pathlib.Path('/sys/class/net/br-ex').exists():
        if time.monotonic() > deadline:
            raise LabError('no br-ex', paths.LOG / 'ovs-vswitchd.log')
        time.sleep(0.1)
    address = f'{catalog.GATEWAY}/{catalog.SUBNET.prefixlen}'
    run('ovs-setup', ['ip', 'addr', 'replace', address, 'dev', 'br-ex'])
    run('ovs-setup', ['ip', 'link', 'set', 'br-ex', 'up'])


def make_bridges(configure: Callable[..., None]) -> None:
    """Make the bridges of a switch.

    :param configure: runs ovs-vsctl on its machine
    """
    for bridge, extra in (('br-ex', []), ('br-int', ['fail-mode=secure'])):
        options = ['datapath_type=netdev', *extra]
        add = ['--may-exist', 'add-br', bridge]
        configure(*add, '--', 'set', 'bridge', bridge, *options)


def vsctl(*arguments: str) -> None:
    """Configure the lab's switch."""
    run('ovs-setup', [*VSCTL, *arguments])


def endpoints() -> None:
    """Make the service users and endpoints."""
    _once('catalog', '2', lambda: catalog.create(catalog.connect()))


def _reporters() -> list[tuple[str, str, str]]:
    """Return Nova's services: name in the lab, binary and host."""
    own = namespace.HOST_NAME
    wanted = [('nova-conductor', 'nova-conductor', own)]
    wanted.append(('nova-scheduler', 'nova-scheduler', own))
    if second.first():
        wanted.append(('nova-compute', 'nova-compute', own))
    if second.holder():
        wanted.append(('nova-compute-2', 'nova-compute', second.HOST))
    for each in node.nodes():
        wanted.append((each.name, 'nova-compute', each.host))
    return wanted


def hosts() -> None:
    """Wait until Nova's services take requests, and map hosts to the cell.

    :raises LabError: when they do not in time.
    """
    cloud = catalog.connect()
    table = services.table()
    for name, binary, host in _reporters():
        _wait_for_report(cloud, table[name], binary, host)
    for each in node.nodes():
        # A power cut after this leaves the identity that Nova has written.
        each.sync()
    _once(
        'host-mapping',
        f'{second.computes()} {node.choice()}',
        lambda: _nova_manage('host-mapping', ['cell_v2', 'discover_hosts']),
    )


def _wait_for_report(
    cloud: Connection, found: service.Service, binary: str, host: str
) -> None:
    own = node.find(host)
    seconds = _NODE_REGISTER_S if own else _REGISTER_S
    deadline = time.monotonic() + seconds
    while True:
        running = found.running()
        if not running:
            raise LabError(f'{found.name} ended', found.log)
        if own or host == second.HOST:
            catalog.let_up(cloud, binary, host)
        if catalog.reporting(cloud, binary, host, running.since()):
            return
        ends = own is not None and own.restarts(binary) >= _RESTARTS
        if ends or time.monotonic() > deadline:
            log = found.log
            if own:
                log = paths.LOG / f'{own.name}-{binary}.log'
                log.write_text(
                    own.run(f'tail -n 100 /var/log/nova/{binary}.log')
                )
            what = (
                'ends again and again' if ends else f'not seen in {seconds} s'
            )
            raise LabError(f'{binary} of {host}: {what}', log)
        if service.abandoned.wait(_NODE_POLL_S if own else 0.3):
            raise LabError(f'{found.name}: not waited for', found.log)


# Every step with the steps and services that it needs.
STEPS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    'mariadb-install': (mariadb_install, ()),
    'databases': (databases, ('mariadb',)),
    'keystone-db': (keystone_db, ('databases',)),
    'placement-db': (placement_db, ('databases',)),
    'glance-db': (glance_db, ('databases',)),
    'neutron-db': (neutron_db, ('databases',)),
    'nova-db': (nova_db, ('databases',)),
    'nova-rt-db': (nova_rt_db, ('databases',)),
    'ovs-databases': (ovs_databases, ()),
    'switch-settings': (switch_settings, ('ovsdb',)),
    'bridges': (bridges, ('ovs-vswitchd',)),
    'catalog': (endpoints, ('keystone',)),
    'hosts': (hosts, ('nova-compute', 'nova-scheduler', 'nova-api')),
}
