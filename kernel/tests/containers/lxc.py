# SPDX-License-Identifier: Apache-2.0
"""LXC domains of libvirt, small enough for a test.

Their file system has a busybox and an init that waits for a file named go,
and keeps a CPU busy as long as it is there. It runs the commands in a file
named do.
"""

import os
import pathlib
import shutil
import subprocess
import time

import libvirt

HOME = pathlib.Path('/var/lib/nova-rt-test')
INIT = """#!/bin/sh
# A loop of the shell itself: no new process, so that nothing but the policy
# and the CPUs of this one matter.
while :; do
    if [ -e /do ]; then
        mv -f /do /doing
        (. /doing) >/said 2>&1
        echo $? >/done
    elif [ -e /go ]; then
        i=0
        while [ $i -lt 20000 ]; do i=$((i + 1)); done
    else
        sleep 0.2
    fi
done
"""
XML = """
<domain type='lxc'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <vcpu placement='static' cpuset='{cpus}'>{vcpus}</vcpu>
  <os><type>exe</type><init>/sbin/init</init></os>
  {idmap}
  <devices>
    <filesystem type='mount'>
      <source dir='{root}'/>
      <target dir='/'/>
    </filesystem>
    <console type='pty'/>
  </devices>
</domain>
"""
#: A user namespace. libvirt starts a container with one only if it has a
#: network of its own.
IDMAP = """
  <features><privnet/></features>
  <idmap>
    <uid start='0' target='{first}' count='65536'/>
    <gid start='0' target='{first}' count='65536'/>
  </idmap>
"""


class Libvirt:
    """The daemon, which may go and come back."""

    def __init__(self) -> None:
        self._open = libvirt.open('lxc:///system')

    @property
    def connection(self) -> libvirt.virConnect:
        """A connection that works."""
        try:
            # isAlive() notices only after something was tried.
            self._open.numOfDomains()
        except libvirt.libvirtError:
            self._open = libvirt.open('lxc:///system')
        return self._open

    def destroy(self, name: str) -> None:
        """End a domain, if it runs."""
        for again in (True, False):
            try:
                for domain in self.connection.listAllDomains():
                    if domain.name() == name:
                        domain.destroy()
                return
            except libvirt.libvirtError as err:
                if self._open.isAlive() or not again:
                    raise
                print(f'     libvirtd went away: {err}; once more', flush=True)


class Container:
    """A domain that runs.

    :param first: the host's ID of its root, which begins a range of its own;
        0 without a user namespace
    :ivar pid: its controller, which libvirt calls the domain's ID
    """

    def __init__(
        self,
        daemon: Libvirt,
        name: str,
        cpus: str,
        vcpus: int,
        *,
        first: int = 0,
    ) -> None:
        self.name = name
        self._daemon = daemon
        self._root = HOME / name
        shutil.rmtree(self._root, ignore_errors=True)
        for directory in ('bin', 'sbin', 'dev', 'proc', 'sys', 'tmp'):
            (self._root / directory).mkdir(parents=True)
        shutil.copy('/bin/busybox', self._root / 'bin')
        listed = subprocess.run(
            ['/bin/busybox', '--list'], check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        for applet in set(listed.stdout.split()) - {'busybox'}:
            (self._root / 'bin' / applet).symlink_to('busybox')
        init = self._root / 'sbin' / 'init'
        init.write_text(INIT)
        init.chmod(0o755)
        if first:
            for path in (self._root, *self._root.rglob('*')):
                os.chown(path, first, first, follow_symlinks=False)
        xml = XML.format(
            name=name,
            cpus=cpus,
            vcpus=vcpus,
            root=self._root,
            idmap=IDMAP.format(first=first) if first else '',
        )
        self.pid = daemon.connection.createXML(xml).ID()

    def go(self) -> None:
        """Have its init keep a CPU busy."""
        (self._root / 'go').touch()

    def attack(self, *arguments: str) -> tuple[int, str]:
        """Run attack.sh inside; return its exit code and output."""
        script = self._root / 'bin' / 'attack.sh'
        shutil.copy(pathlib.Path(__file__).with_name('attack.sh'), script)
        script.chmod(0o755)
        return self.do(f'/bin/attack.sh {" ".join(arguments)}', 1800)

    def send(self, commands: str) -> None:
        """Have its init start some commands."""
        new = self._root / 'do.new'
        new.write_text(commands)
        new.chmod(0o644)
        new.rename(self._root / 'do')

    def do(self, commands: str, limit_s: int = 60) -> tuple[int, str]:
        """Have its init run some commands; return exit code and output."""
        done = self._root / 'done'
        done.unlink(missing_ok=True)
        self.send(commands)
        deadline = time.monotonic() + limit_s
        while not done.exists() or not done.read_text().endswith('\n'):
            if time.monotonic() > deadline:
                raise AssertionError(f'{self.name} does not do {commands!r}')
            time.sleep(0.1)
        return int(done.read_text()), (self._root / 'said').read_text().strip()

    def destroy(self) -> None:
        """End it."""
        self._daemon.destroy(self.name)

    @property
    def init(self) -> int:
        """The process that is PID 1 inside."""
        path = pathlib.Path(f'/proc/{self.pid}/task/{self.pid}/children')
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            children = path.read_text().split()
            if children:
                return int(children[0])
            time.sleep(0.1)
        raise AssertionError(f'{self.name} has no process')
