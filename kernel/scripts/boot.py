#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boot the Debian guest in QEMU, log in on its console and run commands.

    boot.py DISK_DIRECTORY LOG boot|containers

``boot`` checks the kernel that an operator would install: the login, its
configuration, the interface of the live system, the modules. ``containers``
runs nova_rt's host layer on it, see kernel/tests/containers.
"""

import os
import pathlib
import re
import select
import shlex
import subprocess
import sys
import time

import complaints

HERE = pathlib.Path(__file__).resolve().parent.parent
CPUS = 4
#: Nanoseconds of the guest in one instruction, as a power of 2.
SHIFT = int(os.environ.get('GUEST_SHIFT', '1'))
#: Enough for a guest in translation on a loaded machine.
BOOT_S = 1800
COMMAND_S = 900
PASSWORD = 'nova-rt'  # noqa: S105
#: Modules that libvirt, LXC, OVN, volumes and network cards load.
MODULES = """
    openvswitch vport-geneve geneve vxlan veth tun macvlan macvtap bridge
    br_netfilter 8021q ifb sch_htb sch_tbf sch_ingress act_ct nf_conntrack
    nf_tables nf_nat nbd loop overlay squashfs dm_mod iscsi_tcp vhost_net kvm
    mlx4_en mlx4_ib mlx5_core mlx5_ib ena gve iscsi_target_mod vhost_scsi
    nvme_tcp nvmet_tcp rbd drbd
""".split()


class Failed(Exception):
    """The guest is not as it has to be; the text has the difference."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


class Guest:
    """A virtual machine and the line to its console."""

    def __init__(self, disk: pathlib.Path, log: pathlib.Path) -> None:
        self._log = log.open('wb')
        self._text = ''
        arguments = (
            'console=ttyS0 tsc=reliable root=/dev/vda rw panic=-1 loglevel=5 '
            'systemd.show_status=false'
        )
        command = (
            f'nice -n {os.environ.get("GUEST_NICE", "10")}'
            f' {os.environ.get("QEMU", "qemu-system-x86_64")}'
            f' -accel tcg -icount shift={SHIFT},sleep=off -cpu max'
            f' -smp {CPUS} -m 2048 -nodefaults -no-user-config -no-reboot'
            ' -display none -serial stdio'
        )
        self._process = subprocess.Popen(
            [
                *shlex.split(command),
                *('-kernel', disk / 'vmlinuz', '-initrd', disk / 'initrd.img'),
                *('-append', arguments),
                # Writes of the guest are discarded.
                '-drive',
                f'file={disk / "disk.img"},format=raw,if=virtio,snapshot=on',
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> 'Guest':
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def expect(self, pattern: str, seconds: float) -> str:
        """Wait for a pattern; return the text before it, and drop both."""
        deadline = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self._text)
            if found:
                before = self._text[: found.start()]
                self._text = self._text[found.end() :]
                return before
            self._receive(deadline, pattern)

    def _receive(self, deadline: float, pattern: str) -> None:
        left = deadline - time.monotonic()
        out = self._process.stdout
        assert out is not None
        if left <= 0 or not select.select([out], [], [], left)[0]:
            raise Failed(f'no {pattern!r} on the console in time')
        data = os.read(out.fileno(), 65536)
        if not data:
            raise Failed(f'the machine ended before {pattern!r}')
        self._log.write(data)
        self._log.flush()
        text = data.decode('utf-8', 'replace')
        self._text += re.sub(r'\r|\x1b\[[0-9;?]*[a-zA-Z]', '', text)

    def send(self, text: str) -> None:
        """Type a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f'{text}\n'.encode())
        self._process.stdin.flush()

    def login(self) -> None:
        """Log in as a user at the console does."""
        self.expect(r'nova-rt login: ', BOOT_S)
        self.send('root')
        self.expect(r'Password: ', 120)
        self.send(PASSWORD)
        self.expect(r'# ', 120)
        # From here on, the line has only the output of commands.
        self.send('exec env TERM=dumb sh')
        self.send("stty -echo -onlcr; dmesg -n 1; PS1= PS2=; echo 're''ady'")
        self.expect(r'ready\n', 120)

    def run(self, command: str, seconds: float = COMMAND_S) -> str:
        """Run a command; return its output.

        :raises Failed: if it ends with an error
        """
        self.send(f'{{ {command}; }} 2>&1; echo "@do""ne $?"')
        output = self.expect(r'@done ', seconds).strip()
        code = self.expect(r'\n', 60)
        if code != '0':
            raise Failed(f'{command!r} ended with {code}: {output}')
        return output

    def off(self) -> None:
        """Shut the guest down."""
        self.send('systemctl poweroff')
        try:
            self.expect(r'(?!)', 300)
        except Failed:
            if self._process.poll() is None:
                self._process.wait(30)


def boot(guest: Guest, disk: pathlib.Path) -> None:
    """Check what an operator looks at after the first boot."""
    release = guest.run('uname -r')
    wanted = re.search(
        r'^# Linux/\S+ (\S+) Kernel', (disk / 'config').read_text(), re.M
    )
    say(f'  kernel           {release}, {guest.run("uname -v")}')
    if not wanted or not release.startswith(wanted[1]):
        raise Failed(f'the package has another kernel than {release}')
    say(
        f'  system           {guest.run("systemctl is-system-running --wait")}'
    )
    where = guest.run('stat -fc %T /sys/fs/cgroup')
    if where != 'cgroup2fs':
        raise Failed(f'the control groups are a {where}')
    required(guest.run('cat /boot/config-$(uname -r)'))
    interface(guest)
    guest.run('modprobe -a ' + ' '.join(MODULES))
    say(f'  modules          all {len(MODULES)} load')
    bpf_types(guest)


def bpf_types(guest: Guest) -> None:
    """Check what BPF programs and sched_ext need, of modules as well."""
    guest.run('cd /sys/kernel/btf && test -s vmlinux && test -s veth')
    number = guest.run('ls /sys/kernel/btf | wc -l')
    state = guest.run('cat /sys/kernel/sched_ext/state')
    if state != 'disabled':
        raise Failed(f'sched_ext is {state}')
    say(f'  types            of vmlinux and {int(number) - 1} modules')


def required(config: str) -> None:
    """Compare the configuration that was installed with what is required."""
    path = HERE / 'config' / 'server.config'
    lines = re.findall(r'^(?:# )?CONFIG_.*', path.read_text(), re.M)
    there = set(config.splitlines())
    # An option that is off need not have a line.
    missing = [
        line
        for line in lines
        if line not in there
        and (
            line.startswith('CONFIG')
            or any(each.startswith(f'{line.split()[1]}=') for each in there)
        )
    ]
    if missing:
        raise Failed(f'not in the configuration: {missing}')
    say(f'  configuration    all {len(lines)} lines required are there')


def interface(guest: Guest) -> None:
    """Check the files of reservations, in the root and in a group."""
    say(f'  cpu.rt.max       {guest.run("cat /sys/fs/cgroup/cpu.rt.max")}')
    effective = guest.run('cat /sys/fs/cgroup/cpu.rt.effective')
    for line in effective.splitlines():
        say(f'  cpu.rt.effective {line}')
    pattern = r'\d+ ceiling_ppm=(?:9|8)\d{5} reserved_ppm=0'
    found = re.findall(rf'^{pattern}$', effective, re.M)
    if len(found) != CPUS:
        raise Failed(f'expected {CPUS} idle CPUs, found {len(found)}')
    group = '/sys/fs/cgroup/boot-test'
    guest.run(
        'echo +cpu >/sys/fs/cgroup/cgroup.subtree_control && '
        f'mkdir {group} && echo 3000 10000 >{group}/cpu.rt.max'
    )
    held = guest.run(f'cat {group}/cpu.rt.effective').splitlines()
    wanted = [
        f'{cpu} runtime_ns=3000000 period_ns=10000000' for cpu in range(CPUS)
    ]
    if held != wanted:
        raise Failed(f'a group: expected {wanted}, found {held}')
    say(f'  a group          holds (3, 10) ms on {CPUS} CPUs')
    guest.run(f'rmdir {group}')


def containers(guest: Guest, disk: pathlib.Path) -> None:
    """Run nova_rt on this kernel; the tests print their results."""
    del disk
    script = '/opt/kernel-tests/run.sh'
    say(guest.run(f'sh {script}', 3600))


def main() -> int:
    disk, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    check = {'boot': boot, 'containers': containers}[sys.argv[3]]
    begin = time.monotonic()
    try:
        with Guest(disk, log) as guest:
            guest.login()
            say(f'  login            after {time.monotonic() - begin:.0f} s')
            check(guest, disk)
            lines = guest.run('dmesg').splitlines()
            wrong = complaints.find(lines)
            if wrong:
                raise Failed(f'the kernel complains: {wrong[:5]}')
            guest.off()
    except Failed as error:
        say(f'FAILED: {sys.argv[3]}: {error}; the console is in {log}')
        return 1
    say(f'passed: {sys.argv[3]} in {time.monotonic() - begin:.0f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main())
