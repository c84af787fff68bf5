# SPDX-License-Identifier: Apache-2.0
"""Parts of the cloud restart, and somebody or something damages a host."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import unittest

from openstack import exceptions as sdk_exceptions

from lab import (
    accounts,
    leftovers,
    namespace,
    paths,
    second,
    services,
    world,
)
from lab.measure import container
from lab.tests import base, test_moves, watched

#: [nova_rt] verify_interval, and the check itself.
VERIFIED_S = 75
#: Of a request while the cloud comes back; each is waited for.
TRIES = 4
#: Room for the image in Nova's cache, and not for a server's disk.
SMALL_DISK = '20M'
#: Room for some servers, by the size of their flavors.
LARGE_DISK = '8G'
#: What copies a disk has given up by then.
COPIED_S = 120
#: Free bytes of a disk that is full.
LEFT = 512 * 1024
BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def run(*words):
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True,
        text=True,
    ).stdout.strip()  # fmt: skip


class RestartTest(watched.WatchedTestCase):
    """A service is killed and started again; the cloud goes on."""

    def create_patiently(self):
        """Create a server; ask again if the request was lost on its way."""
        for number in range(TRIES):
            self.counts['tries'] += 1
            try:
                server = self.request_server(self.flavor_name)
                return self.reach(server, 'ACTIVE')
            except (AssertionError, sdk_exceptions.SDKException):
                if number == TRIES - 1:
                    raise
                self.counts['asked again'] += 1
                time.sleep(2)

    def survives(self, name, kill):
        other = self.bystander()
        self.restart(name, kill)
        self.assert_same(other)
        self.assert_same(self.create_patiently())
        self.assert_audited()

    def test_libvirtd(self):
        # Its parent here is not systemd but takes leave of the containers'
        # processes; killed, they would stay zombies.
        self.survives('libvirtd', kill=False)

    def test_rabbitmq(self):
        self.survives('rabbitmq', kill=True)

    def test_mariadb(self):
        self.survives('mariadb', kill=True)

    def test_placement(self):
        self.survives('placement', kill=True)

    def test_nova_conductor(self):
        self.survives('nova-conductor', kill=True)

    def test_nova_rt_conductor(self):
        self.survives('nova-rt-conductor', kill=True)

    def test_nova_rt_compute(self):
        other = self.bystander()
        self.restart(watched.COMPUTE, kill=True)
        self.compute_up()
        self.assert_same(other)
        self.assert_same(self.create_patiently())
        self.assert_audited()


class DamageTest(watched.WatchedTestCase):
    """Changes by hand that only nova-rt-compute may make."""

    damages = True

    def test_reservation_and_cpus_by_hand(self):
        server = self.create(self.flavor_name)
        found = self.container(server)
        runtime = found.cgroup / 'cpu.rt_runtime_us'
        if not runtime.exists():
            self.skipTest('for cgroup v1')
        cpuset = container.hierarchies()['cpuset'] / found.cgroup.relative_to(
            container.hierarchies()['cpu']
        )
        wrong = sorted(set(os.sched_getaffinity(0)) - set(found.cpus()))
        self.counts['tries'] += 1
        runtime.write_text('1000')
        if wrong:
            self.counts['tries'] += 1
            (cpuset / 'cpuset.cpus').write_text(str(wrong[0]))
        self.assertNotEqual(watched.RESERVATION, str(found.held()))
        self.wait_for(
            lambda: (
                str(found.held()) == watched.RESERVATION
                and found.cpus() == list(self.record(server).cpus)
            ),
            'it is not repaired',
            VERIFIED_S,
        )
        self.assert_same(server)
        self.assert_audited()

    def virsh(self, action, server):
        self.counts['tries'] += 1
        run('virsh', '-c', 'lxc:///', action, server.id)

    def test_container_stopped_behind_novas_back(self):
        server = self.create(self.flavor_name)
        first = self.container(server)
        self.virsh('destroy', server)
        self.wait_for(first.gone, 'its control groups stay')
        self.wait_status(server, 'SHUTOFF')
        self.assert_claimed(server, self.record(server))
        self.cloud.compute.start_server(server)
        self.reach(server, 'ACTIVE')
        self.assert_same(server)
        self.assert_audited()

    def test_container_removed_behind_novas_back(self):
        """Nova takes no notice of a domain that is not there any more."""
        server = self.create(self.flavor_name)
        first = self.container(server)
        self.virsh('destroy', server)
        self.virsh('undefine', server)
        self.wait_for(first.gone, 'its control groups stay')
        self.assert_claimed(server, self.record(server))
        self.cloud.compute.reboot_server(server.id, 'HARD')
        self.reach(server, 'ACTIVE')
        self.assert_same(server)
        self.assert_audited()

    def test_kernel_refuses_what_placement_granted(self):
        before = self.look()
        free = self.before.hosts[namespace.HOST_NAME].host_free
        if free is None:
            self.skipTest('for kernels that sum over the host')
        group = container.hierarchies()['cpu'] / 'machine' / 'e2e-taken'
        group.mkdir()
        self.addCleanup(lambda: group.exists() and group.rmdir())
        (group / 'cpu.rt_period_us').write_text('1000000')
        (group / 'cpu.rt_runtime_us').write_text(str(free))
        self.counts['tries'] += 1
        server = self.request_server(self.flavor_name)
        server = self.wait_status(server, 'ERROR')
        print(f'  the user reads: {server.fault["message"]}', flush=True)
        self.assertIn('not held', server.fault['message'])
        self.assertIsNone(container.Container.of(server.id))
        self.delete(server)
        group.rmdir()
        self.assert_clean(before)
        self.assert_same(self.create(self.flavor_name))


class FullDiskTest(watched.WatchedTestCase):
    """There is room for the image, and none for a disk."""

    def test_full_disk(self):
        before = self.look()
        with own_disk(self, SMALL_DISK):
            self.counts['tries'] += 1
            server = self.request_server(self.flavor_name)
            server = self.wait_status(server, 'ERROR')
            print(f'  the user reads: {server.fault["message"]}', flush=True)
            self.delete(server)
        self.restart(watched.COMPUTE)
        self.compute_up()
        self.assert_clean(before)
        self.assert_same(self.create(self.flavor_name))
        self.assert_audited()


@contextlib.contextmanager
def own_disk(test, size=LARGE_DISK, directory=world.INSTANCES, on=list):
    """Give the servers of a host a file system of their own.

    :param on: makes the words of a command that runs another on its machine
    :raises unittest.SkipTest: there are servers with disks to hide
    """
    if test.before.files:
        test.skipTest('there are servers')
    file = paths.WORK / 'own-disk'
    run('truncate', '-s', size, file)
    try:
        # A journal would take much of a small one.
        run('mkfs.ext4', '-q', '-m', '0', '-O', '^has_journal', file)
        run(*on(['mount', '-o', 'loop', file, directory]))
        try:
            run(*on(['chown', f'{accounts.ID}:{accounts.ID}', directory]))
            yield
        finally:
            run(*on(['umount', directory]))
    finally:
        file.unlink()


@contextlib.contextmanager
def filled(directory=world.INSTANCES, on=list):
    """Leave no room in a file system within."""
    words = run(*on(['stat', '-f', '-c', '%a %S', directory])).split()
    blocks, size = map(int, words)
    filler = directory / 'filler'
    run(*on(['fallocate', '-l', str(blocks * size - LEFT), filler]))
    try:
        yield
    finally:
        run(*on(['rm', filler]))


class FilledDiskTest(watched.WatchedTestCase, test_moves.DiskTestBase):
    """The disk is full when that of a server is to be copied."""

    def images(self, name):
        return list(self.cloud.image.images(name=name))

    def remove_images(self, name):
        for image in self.images(name):
            self.cloud.image.delete_image(image)

    def test_snapshot(self):
        with own_disk(self):
            server = self.create(self.flavor_name)
            self.write(server, 'before')
            name = f'e2e-{server.id}'
            with filled():
                self.counts['tries'] += 1
                self.cloud.compute.create_server_image(server.id, name)
                self.assertEqual('ACTIVE', self.settled(server, COPIED_S))
                self.wait_for(
                    lambda: not self.images(name), 'half an image is left'
                )
                self.assert_same(server)
            self.assert_written(server, 'before')
            self.delete(server)
        self.assert_audited()

    def test_shelve(self):
        """It is stopped when that fails, and can be started again."""
        with own_disk(self):
            server = self.create(self.flavor_name)
            self.write(server, 'before')
            # Nova leaves it where the snapshot fails.
            self.addCleanup(self.remove_images, f'{server.name}-shelved')
            with filled():
                self.counts['tries'] += 1
                self.cloud.compute.shelve_server(server)
                self.settled(server, COPIED_S)
                self.wait_status(server, 'SHUTOFF')
            self.cloud.compute.start_server(server)
            self.reach(server, 'ACTIVE')
            self.assert_same(server)
            self.assert_written(server, 'before')
            self.delete(server)
        self.assert_audited()


@unittest.skipUnless(second.wanted(), 'a lab with two computes only')
class FullDestinationTest(watched.WatchedTestCase, test_moves.DiskTestBase):
    """There is no room for a disk on the host that a server moves to."""

    on_first = False

    def test_migration(self):
        place = second.INSTANCES, second.enter
        with own_disk(self, LARGE_DISK, *place), filled(*place):
            server = self.request_server(
                self.flavor_name,
                availability_zone=f'nova:{namespace.HOST_NAME}',
            )
            self.reach(server, 'ACTIVE')
            self.write(server, 'before')
            self.counts['tries'] += 1
            self.cloud.compute.migrate_server(server)
            if self.settled(server, COPIED_S) == 'ERROR':
                fault = self.cloud.compute.get_server(server.id).fault
                print(f'  the user reads: {fault}', flush=True)
                self.revive(server)
            self.assertEqual(namespace.HOST_NAME, self.host_of(server))
            self.assert_same(server)
            self.assert_written(server, 'before')
            self.delete(server)
        self.assert_audited()


class RebootTest(watched.WatchedTestCase):
    """The host loses power: processes, groups, mounts, loop devices.

    Simulated: everything of the host ends by a signal, and the state of a
    kernel before its boot is taken away. Somebody else has the loop devices
    afterwards.
    """

    def test_reboot(self):
        servers = [self.create(self.flavor_name) for _ in range(2)]
        servers.append(self.create(base.PLAIN))
        claims = self.stats()
        devices = leftovers._loops()
        self.assertEqual(len(servers), len(devices))
        self.lose_power(servers)
        foreign = self.take_loops(devices)
        with self.booted():
            for server in servers:
                self.wait_status(server, 'SHUTOFF')
            self.assertEqual(claims, self.stats())
        for server in servers:
            self.cloud.compute.start_server(server)
            self.reach(server, 'ACTIVE')
        for server in servers[:2]:
            self.assert_same(server)
        self.assert_audited()
        self.assert_foreign(foreign)
        for server in servers:
            self.delete(server)
        self.assert_foreign(foreign)

    def lose_power(self, servers):
        self.counts['kills'] += 1
        pids = [container.Container.of(s.id).pid for s in servers]
        table = services.table()
        for name in (watched.COMPUTE, 'nova-rt-exporter'):
            running = table[name].running()
            running.kill(signal.SIGKILL)
            running.kill_session()
        inside = [
            pid
            for s in servers
            for pid in container.Container.of(s.id).processes()
        ]
        for pid in (*pids, *inside):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Last: it takes leave of the processes.
        time.sleep(1)
        table['libvirtd'].stop()
        for state in pathlib.Path('/run/libvirt/lxc').glob('*'):
            if state.is_file():
                state.unlink()
        leftovers.detach_loops()
        leftovers.remove_cgroups()
        self.assertEqual([], leftovers._loops())
        # A partition of the machine's own may stay, but empty.
        self.assertEqual(
            [], [p for top in world.partitions() for p in top.glob('*/')]
        )

    def take_loops(self, devices):
        """Give loop devices to somebody else.

        :returns: device -> file
        """
        taken = {}
        for device in devices:
            file = (
                paths.VAR.parent / f'e2e-foreign-{pathlib.Path(device).name}'
            )
            with file.open('wb') as opened:
                opened.truncate(1 << 20)
            self.addCleanup(file.unlink, missing_ok=True)
            run('losetup', device, file)
            self.addCleanup(
                subprocess.run, ['losetup', '--detach', device],
                check=False, capture_output=True,
            )  # fmt: skip
            taken[device] = file
        return taken

    def assert_foreign(self, taken):
        """Nobody has detached a device of somebody else."""
        for device, file in taken.items():
            backing = pathlib.Path('/sys/block', pathlib.Path(device).name)
            backing = backing / 'loop' / 'backing_file'
            self.assertTrue(backing.exists(), f'{device} was detached')
            self.assertEqual(str(file), backing.read_text().strip())

    @contextlib.contextmanager
    def booted(self):
        """Start the services under another boot's ID."""
        file = paths.VAR / 'boot-id'
        file.write_text('6f2f7d3c-0000-4000-8000-000000000001\n')
        run('mount', '--bind', file, BOOT_ID)
        try:
            table = services.table()
            for name in ('libvirtd', 'nova-rt-exporter'):
                table[name].ensure()
            self.compute_up()
            yield
        finally:
            # No user namespace may mount a proc of which the host hides part.
            run('umount', BOOT_ID)
