# SPDX-License-Identifier: Apache-2.0
"""The settings of the DevStack plug-in: defaults, and faults that are told.

tools/devstack-run runs the plug-in under DevStack itself.
"""

import pathlib
import re
import subprocess
import tempfile
import unittest

PLUGIN = pathlib.Path(__file__).resolve().parents[2] / 'devstack'
SHELL = [
    PLUGIN / 'override-defaults',
    PLUGIN / 'plugin.sh',
    PLUGIN / 'settings',
    *sorted((PLUGIN / 'lib').iterdir()),
]
#: The functions and variables of DevStack that the settings need.
DEVSTACK = """
function trueorfalse {
    case "${!2,,}" in
        1 | true | yes) echo True ;;
        0 | false | no) echo False ;;
        *) echo "$1" ;;
    esac
}
function die { shift; echo "DIE: $*" >&2; exit 1; }
function is_ubuntu { true; }
function is_service_enabled { [[ " n-cpu nova tempest " == *" $1 "* ]]; }
function define_plugin { :; }
function enable_service { echo "enabled $1"; }
VIRT_DRIVER=libvirt LIBVIRT_TYPE=kvm NOVA_NUM_CELLS=1 DATA_DIR=/opt/data
HOST_IP=192.0.2.1 SERVICE_HOST=192.0.2.1 NOVA_CONF_DIR=/etc/nova
"""


class SettingsTest(unittest.TestCase):
    """Faults of local.conf are told before anything is done."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.groups = pathlib.Path(directory.name)
        (self.groups / 'cpu.rt.max').touch()

    def read(self, localrc='', more=':'):
        """Read all settings, as stack.sh does after its own."""
        script = (
            f'{DEVSTACK}\nNOVA_RT_CGROUPS={self.groups}\n{localrc}\n'
            f'source {PLUGIN}/override-defaults\nsource {PLUGIN}/settings\n'
            f'{more}\nset -o posix; set'
        )
        return subprocess.run(
            ['bash', '-c', script],
            env={'PATH': '/usr/bin:/bin'},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_defaults(self):
        done = self.read('NOVA_RT_HINTS=\n')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        found = set(done.stdout.splitlines())
        self.assertLessEqual(
            {
                'enabled nova-rt-exporter',
                'LIBVIRT_TYPE=lxc',
                'NOVA_RT_HINTS=lower',
                f'TEMPEST_PLUGINS={PLUGIN.parent}/tempest_plugin',
            },
            found,
        )

    def test_faults(self):
        for line, told in (
            ('NOVA_RT_ENFORCEMENT=always', 'NOVA_RT_ENFORCEMENT is "always"'),
            ('NOVA_RT_HINTS=maybe', 'not one of: lower deny any'),
            ('NOVA_RT_REFUSAL_DETAILS=all', 'NOVA_RT_REFUSAL_DETAILS'),
            ('NOVA_RT_MACHINED=True', 'NOVA_RT_MACHINED'),
            ('NOVA_RT_TEMPEST_ACCESS=telnet', 'NOVA_RT_TEMPEST_ACCESS'),
            ('NOVA_RT_RESERVED_PPM=5%', 'not a number from 0 to 999999'),
            ('NOVA_RT_RESERVED_PPM=08', 'NOVA_RT_RESERVED_PPM is "08"'),
            ('NOVA_RT_ID_COUNT=99999999999999999999', 'NOVA_RT_ID_COUNT'),
            ('NOVA_RT_CPU_SET=2,3-', 'NOVA_RT_CPU_SET is "2,3-"'),
            ('NOVA_RT_FLAVORS="a:1:10/100 b:1"', 'NOVA_RT_FLAVORS has "b:1"'),
            ('NOVA_RT_DATABASE="a;b"', 'NOVA_RT_DATABASE'),
            ('NOVA_NUM_CELLS=2', 'NOVA_NUM_CELLS is 2'),
            ('VIRT_DRIVER=fake', 'VIRT_DRIVER is "fake"'),
            ('LIBVIRT_TYPE=qemu', 'set NOVA_RT_COMPUTE=False'),
            ('NOVA_RT_KERNEL_PACKAGES=/no.deb', 'no such file'),
            ('NOVA_RT_SCHED_PACKAGE=/no.deb', 'no such file'),
            ('NOVA_RT_SCHED_PACKAGE=a.deb', 'not the absolute path'),
            (
                'NOVA_RT_SCHED=True NOVA_RT_KERNEL_PACKAGES=/no.deb',
                'set one of them',
            ),
        ):
            with self.subTest(line):
                done = self.read(line)
                self.assertEqual(1, done.returncode)
                self.assertIn(told, done.stderr)

    def test_kernel(self):
        (self.groups / 'cpu.rt.max').unlink()
        done = self.read()
        self.assertIn('neither cpu.rt.max nor cpu.rt_runtime_us', done.stderr)
        self.assertEqual(0, self.read('NOVA_RT_CHECK=False').returncode)
        (self.groups / 'cpu').mkdir()
        (self.groups / 'cpu/cpu.rt_runtime_us').touch()
        self.assertEqual(0, self.read().returncode)
        done = self.read('NOVA_RT_ENFORCEMENT=guarantee')
        self.assertIn('only limits (v1-throttle)', done.stderr)

    def test_scheduler(self):
        """A kernel without sched_ext is refused, with what it lacks."""
        system = self.groups / 'kernel'
        localrc = f'NOVA_RT_SCHED=True NOVA_RT_SYS_KERNEL={system}'
        done = self.read(localrc)
        self.assertIn('NOVA_RT_SCHED=False', done.stderr)
        self.assertIn('is the HCBS kernel', done.stderr)
        (self.groups / 'cpu.rt.max').unlink()
        files = {
            system / 'sched_ext/state': ('CONFIG_SCHED_CLASS_EXT', 'disabled'),
            system / 'btf/vmlinux': ('CONFIG_DEBUG_INFO_BTF', 'no groups'),
            self.groups / 'cgroup.controllers': ('cgroup-v2', 'cpu'),
        }
        for file, (lacking, text) in files.items():
            done = self.read(localrc)
            self.assertEqual(1, done.returncode)
            self.assertIn(lacking, done.stderr)
            self.assertIn('trixie-backports', done.stderr)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = self.read(localrc)
        self.assertIn('lacks CONFIG_EXT_GROUP_SCHED.', done.stderr)
        (system / 'btf/vmlinux').write_bytes(b'\0scx_bpf_task_cgroup\0')
        done = self.read(localrc)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('the kernel offers v2-sched-ext', done.stdout)
        done = self.read(f'{localrc} NOVA_RT_ENFORCEMENT=guarantee')
        self.assertIn('makes soft reservations', done.stderr)

    def test_enforcement_of_flavors(self):
        for sched, promised in (('False', 'guarantee'), ('True', 'soft')):
            localrc = f'NOVA_RT_SCHED={sched} NOVA_RT_CHECK=False'
            done = self.read(localrc, 'get_rt_enforcement')
            self.assertIn(promised, done.stdout.splitlines())
            (self.groups / 'cpu.rt.max').unlink(missing_ok=True)

    def test_settings_are_set_in_one_file(self):
        text = (PLUGIN / 'settings').read_text()
        text += (PLUGIN / 'override-defaults').read_text()
        found = set(re.findall(r'^ *(NOVA_RT_\w+)=', text, re.M))
        for file in SHELL:
            text = file.read_text()
            own = set(re.findall(r'^ *(NOVA_RT_\w+)\+?=', text, re.M))
            used = set(re.findall(r'\$\{?(NOVA_RT_\w+)', text))
            # Where the machine has its files; and the text of all faults.
            known = found | own | {'NOVA_RT_CGROUPS', 'NOVA_RT_FAULTS'}
            self.assertEqual(set(), used - known, file)
