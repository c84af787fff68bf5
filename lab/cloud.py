# SPDX-License-Identifier: Apache-2.0
"""The lab as a whole: everything up, parts restarted, everything down."""

from collections.abc import Callable, Collection, Iterator, Sequence
import concurrent.futures
import contextlib
import fcntl
import graphlib
import shutil
import subprocess
import sys

from keystoneauth1.exceptions import ClientException
from openstack import exceptions as sdk_exceptions
import pymysql

from lab import (
    accounts,
    catalog,
    config,
    leftovers,
    namespace,
    node,
    paths,
    preflight,
    process,
    second,
    second_machine,
    second_services,
    second_steps,
    service,
    services,
    setup_steps,
    world,
)
from lab.console import LabError, say, warn
from lab.node import image as node_image
from lab.node import services as node_services
from lab.node import steps as node_steps

IMAGE_FILE = paths.IMAGES / f'{catalog.IMAGE}.img'
# Nothing they hold is kept, so they need not end in order.
_DOWN_S = 1.5
_BUILD_IMAGE = paths.CHECKOUT / 'lab' / 'guest' / 'build.sh'


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Allow only one command at a time to change the lab."""
    paths.WORK.mkdir(parents=True, exist_ok=True)
    with paths.LOCK.open('a') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say('another lab command is at work, waiting for it')
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(
    arguments: list[str],
    computes: int | None = None,
    nodes: str | None = None,
) -> int:
    """Bring the namespaces up and the rest of ``up`` to work in them.

    :param computes: how many compute hosts on the machine's own kernel; None
        for as many as there are.
    :param nodes: a choice of nodes; None for those that there are.
    """
    with lock():
        if not preflight.is_this_installed():
            warn(
                'the lab runs another nova_rt than that of this checkout; '
                'tools/bootstrap.sh installs it'
            )
        kept = namespace.holder()
        if kept:
            second.choose(computes)
            node.choose(nodes)
        else:
            kept = _new_namespaces(computes, nodes)
        maker = node_image.start()
        try:
            return namespace.run_module(kept, 'lab', ['_up', *arguments])
        finally:
            if maker:
                node_image.stop()


def up_and_run(
    module: str,
    arguments: Sequence[str],
    computes: int | None = None,
    nodes: str | None = None,
) -> int:
    """Bring everything up, then run a module of the checkout in it.

    :param computes: and nodes: as for :func:`up`
    :return: the exit code of the failed command, or of the module.
    """
    code = up([], computes, nodes)
    kept = namespace.holder()
    if code or not kept:
        return code or 1
    return namespace.run_module(kept, module, arguments)


def _new_namespaces(
    computes: int | None, nodes: str | None
) -> process.Process:
    nodes = nodes or node.choice()
    if computes is None:
        computes = second.computes()
    if computes is None:
        computes = 1 if not nodes or preflight.has_interface() else 0
    if not computes and not nodes:
        raise LabError('a lab without a compute: use --node as well')
    preflight.check(computes, node.count(nodes))
    # Processes of a lab whose holder was killed are of no use to a new one.
    if namespace.members():
        warn('ending what is left of a lab without namespaces')
        _sweep()
    if not paths.VAR.exists():
        shutil.rmtree(paths.LOG, ignore_errors=True)
    for directory in (paths.RUN, paths.ETC, paths.LOG):
        directory.mkdir(parents=True, exist_ok=True)
    second.choose(computes)
    node.choose(nodes)
    leftovers.remember_host()
    accounts.write()
    kept = namespace.create()
    say(f'namespaces are up, kept by process {kept.pid}')
    return kept


def up_inside(stock_compute: bool, revive: bool = True) -> None:
    """Start and set up everything that is not there yet.

    :param revive: start the second compute's machine as well, if it is dead.
    """
    config.write()
    namespace.keep_private()
    accounts.write()
    if revive and second.wanted():
        second_machine.ensure()
    accounts.own(services.UNIT)
    steps, work = _plan(stock_compute)
    if second.holder():
        steps['hosts'] = (
            *steps['hosts'],
            second_services.name('nova-compute'),
        )
    steps['hosts'] += tuple(each.name for each in node.nodes())
    work['seed'] = seed
    steps['seed'] = ('hosts', 'glance', 'neutron', 'image')
    work['image'] = build_image
    steps['image'] = ()
    _run_all(steps, work)
    say('the lab is up')


def boot_inside(without: Collection[str]) -> None:
    """Start the second compute's machine and its services.

    :param without: services of it that stay down
    """
    second_machine.ensure()
    steps, work = _plan(stock_compute=False)
    for name in ('hosts', *without):
        del steps[name], work[name]
    _run_all(steps, work)
    say(f'{second.HOST} is up')


def _plan(
    stock_compute: bool,
) -> tuple[dict[str, tuple[str, ...]], dict[str, Callable[[], object]]]:
    """Return the services and steps that are possible: needs and work."""
    table = second_services.possible(services.table(stock_compute))
    steps = {name: step.needs for name, step in table.items()}
    work: dict[str, Callable[[], object]] = {
        name: step.ensure for name, step in table.items()
    }
    setup = dict(setup_steps.STEPS)
    if second.holder():
        setup |= second_steps.STEPS
    if node.nodes():
        setup |= node_steps.STEPS
    for name, (function, needs) in setup.items():
        steps[name] = needs
        work[name] = function
    if not second.first():
        steps['hosts'] = tuple(
            need
            for need in steps['hosts']
            if need not in services.OF_A_COMPUTE
        )
    return steps, work


def _run_all(
    needs: dict[str, tuple[str, ...]], work: dict[str, Callable[[], object]]
) -> None:
    # Each step as soon as what it needs is done; the first failure ends it.
    order = graphlib.TopologicalSorter(needs)
    order.prepare()
    with concurrent.futures.ThreadPoolExecutor(len(work)) as pool:
        running: dict[concurrent.futures.Future[object], str] = {}
        while order.is_active():
            for name in order.get_ready():
                running[pool.submit(work[name])] = name
            done, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                name = running.pop(future)
                _result(name, future)
                order.done(name)


def _result(name: str, future: concurrent.futures.Future[object]) -> None:
    try:
        future.result()
    except (sdk_exceptions.SDKException, ClientException) as error:
        service.abandoned.set()
        raise LabError(f'{name}: {error}') from error
    except LabError as error:
        service.abandoned.set()
        say(f'FAILED: {error}')
        raise


def build_image() -> None:
    """Build the containers' image unless it is there for the same inputs."""
    paths.IMAGES.mkdir(parents=True, exist_ok=True)
    paths.LOG.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(
        [_BUILD_IMAGE, '--inputs'], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise LabError(f'{_BUILD_IMAGE} --inputs failed: {listed.stderr}')
    stamp = IMAGE_FILE.with_suffix('.inputs')
    if IMAGE_FILE.exists() and stamp.exists():
        if stamp.read_text() == listed.stdout:
            return
    setup_steps.run('image', [_BUILD_IMAGE, IMAGE_FILE], cwd=paths.IMAGES)
    stamp.write_text(listed.stdout)
    say(f'built {IMAGE_FILE}')


def seed() -> None:
    """Fill the cloud with an image, a network and flavors."""
    cloud = catalog.connect()
    catalog.seed(cloud, IMAGE_FILE)
    if catalog.only_limits(cloud):
        warn(
            "this machine's kernel limits real-time servers, it does not "
            'guarantee them their CPU; the flavors say rt:enforcement=limit'
        )


def restart_inside(names: list[str], stock_compute: bool) -> None:
    """Stop some services and start them again, with those they need."""
    table = services.table(stock_compute)
    possible = second_services.possible(table)
    for name in names:
        if name not in table:
            raise LabError(
                f'no service {name!r}; there are: {", ".join(table)}'
            )
        if name not in possible:
            raise LabError(f'{second.HOST} is dead; "up" starts it')
    for name in names:
        table[name].stop()
        say(f'{name} is stopped')
    up_inside(stock_compute, revive=False)


def kill_inside(name: str | None = None) -> None:
    """Kill a machine; nothing on it ends in order.

    :param name: of a node; None for that of the second compute
    :raises LabError: when the lab has none, or something lives on.
    """
    if name:
        own = {each.name: each for each in node.nodes()}
        if name not in own:
            listed = ', '.join(own) or 'none'
            raise LabError(f'no node {name!r}; there are: {listed}')
        node_services.kill(own[name])
        say(f'{own[name].host} is dead; "up" starts it again')
        return
    if not second.wanted():
        raise LabError('this lab has one compute; "up --computes 2" has two')
    second_machine.kill()
    say(f'{second.HOST} is dead; "up" starts it again')


def status_inside() -> int:
    """Print a line for each service.

    :return: 3 when something is down, as for system services.
    """
    print(f'{"service":<20} {"pid":>8} {"RSS MiB":>8}  {"state":<14} log')
    code = 0
    for found in services.table().values():
        running = found.running()
        state = found.state()
        code = code if state == 'up' else 3
        pid = str(running.pid) if running else '-'
        rss = str(running.rss_kb() // 1024) if running else '-'
        print(f'{found.name:<20} {pid:>8} {rss:>8}  {state:<14} {found.log}')
    for own in node.nodes():
        print(f'\n{own.host}, {own.address}: {node_services.describe(own)}')
        code = code if _describe_host(own.host) else 3
    return code


def _describe_host(host: str) -> bool:
    """Print the reservations of a host; return whether Nova has it."""
    try:
        stats = world.stats(host)
    except (ValueError, pymysql.Error):
        print('  Nova does not know it yet')
        return False
    free = ', '.join(f'{cpu}: {ppm}' for cpu, ppm in stats.free.items())
    print(
        f'  interface {stats.interface}, enforcement {stats.enforcement}, '
        f'free ppm {free}'
    )
    return True


def down() -> int:
    """Stop and remove everything but the logs, the image and the venv.

    :return: 1 when something could not be removed.
    """
    if namespace.inside():
        raise LabError("this is the lab's own shell; leave it first")
    with lock():
        kept = namespace.holder()
        if kept:
            namespace.run_module(kept, 'lab', ['_stop'])
        node_image.stop()
        _sweep()
        for directory in (paths.VAR, paths.ETC, paths.BIN):
            shutil.rmtree(directory, ignore_errors=True)
        left = leftovers.find()
        for line in left:
            print(f'left behind: {line}', file=sys.stderr)
        if left:
            return 1
        leftovers.forget_host()
        say('the lab is down')
        return 0


def _sweep() -> None:
    # With its last process a namespace ends, and with it its mounts, without
    # which the loop devices are free.
    process.stop(namespace.members(), 10)
    process.stop(leftovers.container_processes(), 5)
    leftovers.detach_loops()
    leftovers.remove_cgroups()


def stop_inside() -> None:
    """Destroy the lab's containers, then end all services at once."""
    if second.wanted():
        second_machine.kill()
    table = services.table()
    if second.first():
        table['nova-compute'].stop(_DOWN_S)
        if table['libvirtd'].running():
            _destroy_domains()
    say('containers are gone')
    rest = [found for found in table.values() if found.running()]
    with concurrent.futures.ThreadPoolExecutor(len(table)) as pool:
        list(pool.map(lambda found: found.stop(_DOWN_S), rest))
    say('services are stopped')


def _destroy_domains() -> None:
    # Every domain of this libvirtd is the lab's: its directories are.
    virsh = ['virsh', '-c', 'lxc:///']
    listed = subprocess.run(
        [*virsh, 'list', '--all', '--name'],
        capture_output=True,
        text=True,
        check=False,
    )
    for name in listed.stdout.split():
        for action in ('destroy', 'undefine'):
            subprocess.run(
                [*virsh, action, name], capture_output=True, check=False
            )
