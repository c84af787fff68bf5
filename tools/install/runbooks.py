# SPDX-License-Identifier: Apache-2.0
"""Follows the runbooks of the manual on the lab, to the letter.

Each runbook is one section of the page. The events before its operator comes
are made here: there are servers, a record is damaged, an older version of
nova_rt is installed. Everything else is in the page's own blocks.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
import pathlib
import shutil
import sys
import time

from openstack import exceptions
from openstack.connection import Connection
import pymysql

from lab import (
    catalog,
    edition,
    namespace,
    paths,
    second,
    services,
    setup_steps,
)
from lab import (
    cloud as lab_cloud,
)
from lab.console import LabError, say
from lab.measure import sampler
from lab.measure.container import Container
from tools.gate.places import ROOT
from tools.install import blocks, chapter, lab_units, node
from tools.install.commands import DOWN, RUN, empty, lab

PAGE = ROOT / 'doc' / 'source' / 'admin' / 'runbooks.rst'
LOG = RUN / 'runbooks.log'
HOME = RUN / 'runbooks'
OLDER, NEWER = '0.0.1', '0.0.2'
#: Services that nova_rt is in.
OURS = (
    'nova-conductor', 'nova-scheduler', 'nova-rt-conductor', 'nova-api',
    'nova-rt-api', 'nova-compute', 'nova-rt-exporter',
)  # fmt: skip
#: Of one block.
_LIMIT_S = 300
_SYSTEMCTL = """#!/bin/sh
cd {root} && NOVA_RT_LAB={work} exec {python} -m tools.install.lab_units \\
    --host {host} "$@"
"""


class Stage:
    """The lab before an operator comes.

    :param hosts: compute hosts that get a server each
    :ivar servers: real-time servers that live through all runbooks
    """

    def __init__(self, cloud: Connection, hosts: Sequence[str]) -> None:
        self._cloud = cloud
        self.servers = [
            self._create(f'runbook-{number}', host)
            for number, host in enumerate(hosts)
        ]

    def _create(self, name: str, host: str) -> str:
        compute = self._cloud.compute
        image = self._cloud.image.find_image(
            catalog.IMAGE, ignore_missing=False
        )
        flavor = compute.find_flavor('rt.tiny', ignore_missing=False)
        server = compute.create_server(
            name=name, image_id=image.id, flavor_id=flavor.id,
            networks='none', availability_zone=f'nova:{host}',
        )  # fmt: skip
        try:
            compute.wait_for_server(server, interval=1, wait=120)
        except exceptions.ResourceFailure as err:
            fault = compute.get_server(server.id).fault
            raise LabError(f'{name} on {host}: {fault}') from err
        return str(server.id)

    def remove(self) -> None:
        """Delete the servers."""
        for server in self.servers:
            self._cloud.compute.delete_server(server, ignore_missing=True)
            self._cloud.compute.wait_for_delete(
                self._cloud.compute.get_server(server), interval=1, wait=120
            )

    def maintenance(self) -> Mapping[str, str]:
        """A host is to be maintained."""
        return {'host=HOST': f'host={namespace.HOST_NAME}'}

    def dead(self) -> Mapping[str, str]:
        """A host has lost its power."""
        lab_cloud.kill_inside()
        return {'host=HOST': f'host={second.HOST}'}

    def damaged(self) -> Mapping[str, str]:
        """A record is damaged, nova-compute has seen it, the server ended."""
        server = self.servers[0]
        connection = pymysql.connect(
            unix_socket=str(paths.MYSQL_SOCKET), user='root', db='nova_cell1'
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "UPDATE instance_system_metadata SET value = 'v=1;q=x' "
                "WHERE instance_uuid = %s AND `key` = 'nova_rt'",
                (server,),
            )
            connection.commit()
        lab_units.main(['restart', 'nova-compute'])
        self._cloud.compute.stop_server(server)
        deadline = time.monotonic() + 120
        while self._cloud.compute.get_server(server).status != 'SHUTOFF':
            if time.monotonic() > deadline:
                raise LabError('a server with a broken record does not stop')
            time.sleep(1)
        return {'server=SERVER': f'server={server}'}

    def upgrade(self) -> Mapping[str, str]:
        """An older version runs, and the wheel of a newer one is there."""
        (newer,) = HOME.glob(f'nova_rt-{NEWER}-*.whl')
        say(f'{newer.name} is to be installed')
        return {
            'version=1.1.0': f'version={NEWER}',
            'nova=/opt/nova': f'nova={lab_units.PREFIX.read_text()}',
            'cd /root': f'cd {HOME}',
        }

    def roll_back(self) -> Mapping[str, str]:
        """The newer version runs."""
        return {'version=1.0.0': f'version={OLDER}'}

    def groups(self) -> list[str]:
        """The control groups of the servers, below their hierarchy."""
        groups = [container.cgroup for container in self.containers()]
        return [str(group.relative_to(group.parents[1])) for group in groups]

    def containers(self, host: str | None = None) -> list[Container]:
        """The containers of the servers.

        :param host: where they must run; None for any
        :raises LabError: if one does not run there
        """
        found = []
        for server in self.servers:
            if host is None:
                container = Container.of(server)
            else:
                container = Container.on(host, server)
            if container is None:
                raise LabError(f'{server} does not run on {host or "a host"}')
            found.append(container)
        return found


def command() -> None:
    """Follow all runbooks, with one compute and with two.

    A lab that is up with one compute is made anew for that.

    :raises LabError: if one of them cannot be followed
    """
    was_down = lab('status', LOG, codes=(0, 1, DOWN)) == DOWN
    inside = f'exec {sys.executable} -m tools.install.runbooks'
    try:
        for words in ('up --computes 1', inside, 'down',
                      'up --computes 2', inside, 'down'):  # fmt: skip
            lab(words, LOG)
    finally:
        # Whatever the services run now: what is installed.
        lab('down' if was_down else 'up', LOG)
    say(f'the page was followed; {LOG} has every command')


def _inside() -> None:
    """The part of it that is in the lab's namespaces."""
    _furnish()
    cloud = catalog.connect()
    hosts = second.alive()
    try:
        stage = Stage(cloud, hosts if len(hosts) > 1 else hosts * 2)
        try:
            if second.wanted():
                _follow_with_two(stage)
            else:
                _follow(stage)
        finally:
            stage.remove()
    finally:
        cloud.close()
        lab_units.PREFIX.unlink(missing_ok=True)


def _furnish() -> None:
    """Give the operator the usual: systemctl, configuration, mysql."""
    empty(HOME)
    lab_units.PREFIX.unlink(missing_ok=True)
    for host in (namespace.HOST_NAME, second.HOST):
        _bin(host).mkdir()
        systemctl = _bin(host) / 'systemctl'
        systemctl.write_text(
            _SYSTEMCTL.format(
                root=ROOT, work=paths.WORK, python=sys.executable, host=host
            )
        )
        systemctl.chmod(0o755)
    more = HOME / '.nova' / 'nova.conf.d'
    more.mkdir(parents=True)
    etc = paths.ETC / 'nova'
    for name in ('nova.conf', 'nova-rt-conductor.conf'):
        (more.parent / name).symlink_to(etc / name)
    (more / 'nova-database.conf').symlink_to(etc / 'nova-database.conf')
    (HOME / '.my.cnf').write_text(
        f'[client]\nuser = root\nsocket = {paths.MYSQL_SOCKET}\n'
    )


def _bin(host: str) -> pathlib.Path:
    return HOME / f'bin-{host}'


def _operator(host: str) -> node.Host:
    """An operator on a controller and a compute host at once."""
    environment = os.environ | {
        'HOME': str(HOME), 'PATH': f'{_bin(host)}:{os.environ["PATH"]}',
    }  # fmt: skip
    return node.Host(
        ('timeout', str(_LIMIT_S)), LOG, cwd=HOME, environment=environment
    )


def _follow(stage: Stage) -> None:
    found = blocks.read(PAGE)
    runbooks: dict[str, Callable[[], Mapping[str, str]]] = {
        'Planned maintenance of a host': stage.maintenance,
        'A damaged record': stage.damaged,
    }
    _each(found, runbooks)
    _install_older()
    try:
        with sampler.running(HOME / 'samples') as watch:
            groups = stage.groups()
            _each(
                found,
                {'Rolling upgrade': stage.upgrade,
                 'Roll-back': stage.roll_back},
            )  # fmt: skip
            seen = watch.end()
        for group in groups:
            if len(seen.changes(group)) != 1:
                raise LabError(f'{group}: {seen.changes(group)}')
        say(f'no reservation dropped in upgrade and roll-back: {seen}')
    finally:
        _run(edition.installed())


def _follow_with_two(stage: Stage) -> None:
    """Follow the runbooks that need a second compute host."""
    found = blocks.read(PAGE)
    _each(found, {'Planned maintenance of a host': stage.maintenance})
    # All have left the host that was maintained.
    stage.containers(second.HOST)
    _each(found, {'A dead host': stage.dead}, second.HOST)
    stage.containers(namespace.HOST_NAME)


def _each(
    found: list[blocks.Block],
    runbooks: Mapping[str, Callable[[], Mapping[str, str]]],
    host: str = namespace.HOST_NAME,
) -> None:
    """Follow some runbooks.

    :param host: the compute host at which root types
    """
    for title, prepare in runbooks.items():
        section = [
            block
            for block in found
            if block.section == title
            and (second.wanted() or 'second' not in block.words)
        ]
        if not section:
            raise blocks.Wrong(f'there is no runbook {title!r}')
        follower = chapter.Follower(
            _operator(host), prepare(), str(HOME / 'state')
        )
        follower.follow(section)
        follower.finish()
        say(f'{title}: {follower.commands} commands')


def _install_older() -> None:
    """Have the services run an older version, in an environment of its own."""
    wheels = [edition.build(version) for version in (NEWER, OLDER)]
    for wheel in wheels:
        shutil.copy(wheel, HOME)
    older = edition.make(wheels[-1])
    older.program('pip')
    _run(older)
    lab_units.PREFIX.write_text(str(older.prefix))


def _run(version: edition.Edition) -> None:
    table = services.table()
    wanted = [version.put_in(table[name]) for name in OURS]
    for each in reversed(wanted):
        each.stop()
    version.permit()
    for each in wanted:
        each.ensure()
    setup_steps.hosts()


if __name__ == '__main__':
    with contextlib.suppress(KeyboardInterrupt):
        try:
            _inside()
        except LabError as error:
            sys.exit(str(error))
