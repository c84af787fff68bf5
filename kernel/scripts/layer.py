#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run nova_rt/tests/host on the test kernel with the series, in QEMU.

The guest has only the files that these tests import: Python and its libraries,
packages of the environment that `make venv` made, nova_rt from the checkout.
Its CPUs run by the host's clock, so a test that waits for the kernel can fail
on a very busy machine. Tests that need a socket are left out: the test kernel
has no network.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import complaints

KERNEL = pathlib.Path(__file__).resolve().parent.parent
TOP = KERNEL.parent
LAB = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
LOG = WORK / 'logs' / 'layer.log'
PYTHON = LAB / 'venv/bin/python'
LIMIT_S = 600
TESTS = ('nova_rt.tests.host.test_host', 'nova_rt.tests.host.test_conformance')

# Prints the path of each module and each shared library.
LIST = f"""
import sys, unittest, {', '.join(TESTS)}
for module in list(sys.modules.values()):
    print(getattr(module, '__file__', None) or '')
print(*(line.split()[-1] for line in open('/proc/self/maps')), sep='\\n')
"""

PLACES = """
import encodings, sys, sysconfig
print(sys._base_executable, sysconfig.get_path('purelib'))
print(encodings.__path__[0])
"""

RUN = f"""
import sys, unittest, warnings
warnings.simplefilter('ignore')
sys.path[:0] = sys.argv[1:]
suite = unittest.TestLoader().loadTestsFromNames({TESTS})
end = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
bad = len(end.failures) + len(end.errors)
skipped = len(end.skipped)
print(f'RESULT {{end.testsRun - bad - skipped}} passed, {{bad}} failed, '
      f'{{skipped}} skipped', flush=True)
"""

INIT = """#!/bin/sh
export PATH=/bin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
for what in proc:/proc sysfs:/sys devtmpfs:/dev tmpfs:/tmp \
        cgroup2:/sys/fs/cgroup; do
    mount -t ${what%%:*} none ${what#*:}
done
%s /run.py %s
reboot -f
"""


def output(*command: str | pathlib.Path, **environment: str) -> str:
    """Run a command; return its output, and show its errors."""
    return subprocess.run(
        command,
        env=os.environ | environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def files() -> set[pathlib.Path]:
    """Files that the tests import, and the libraries that these need."""
    text = output(PYTHON, '-W', 'ignore', '-c', LIST, PYTHONPATH=str(TOP))
    found = {pathlib.Path(line) for line in text.splitlines()}
    found = {path for path in found if path.is_file()}
    for path in [*found]:
        if '.so' in path.name or path.parent.name == 'bin':
            # With the names by which they are loaded.
            needs = re.findall(r'(/\S+) \(0x', output('ldd', path))
            found |= {pathlib.Path(need) for need in needs}
    return found


def build(root: pathlib.Path) -> None:
    """Make the guest's file system."""
    for name in ('bin', 'proc', 'sys', 'dev', 'tmp'):
        (root / name).mkdir()
    for path in files():
        copy = root / path.relative_to('/')
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    python, packages, encodings = output(PYTHON, '-c', PLACES).split()
    # Some packages look themselves up by name when they are imported.
    for path in pathlib.Path(packages).glob('*.dist-info/METADATA'):
        copy = root / path.relative_to('/')
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)
    # A library may ask for any encoding.
    shutil.copytree(
        encodings,
        root / pathlib.Path(encodings).relative_to('/'),
        dirs_exist_ok=True,
    )
    shutil.copy(shutil.which('busybox') or '/bin/busybox', root / 'bin')
    for name in ('sh', 'mount', 'reboot', 'sleep'):
        (root / 'bin' / name).symlink_to('busybox')
    (root / 'run.py').write_text(RUN)
    (root / 'init').write_text(
        INIT % (os.path.realpath(python), f'{TOP} {packages}')
    )
    (root / 'init').chmod(0o755)


def boot(initrd: pathlib.Path) -> None:
    """Run the guest to its end."""
    image = output(KERNEL / 'scripts/build.sh', 'hcbs').split()[-1]
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    with subprocess.Popen([
        'qemu-system-x86_64', '-accel', 'tcg,thread=multi', '-cpu', 'max',
        '-smp', '2', '-m', '1024', '-nodefaults', '-no-user-config',
        '-no-reboot', '-display', 'none', '-serial', f'file:{LOG}',
        '-kernel', image, '-initrd', str(initrd), '-append',
        'console=ttyS0 panic=-1 tsc=reliable rdinit=/init loglevel=4',
    ]) as guest:  # fmt: skip
        try:
            guest.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            guest.kill()


def main() -> int:
    """Build, boot and judge; 0 if all tests passed."""
    if not PYTHON.exists():
        print('layer: no Python environment: run `make venv` first')
        return 2
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        root = pathlib.Path(name) / 'root'
        root.mkdir()
        build(root)
        initrd = pathlib.Path(name) / 'initrd'
        names = '\n'.join(str(p.relative_to(root)) for p in root.rglob('*'))
        subprocess.run(
            ['cpio', '-o', '-H', 'newc', '--quiet', '-F', initrd],
            cwd=root,
            input=names,
            text=True,
            check=True,
        )
        boot(initrd)
    text = LOG.read_text(errors='replace')
    result = re.search('^RESULT (.*)$', text, re.M)
    lines = [line for line in text.splitlines() if complaints.complains(line)]
    for line in lines:
        print(line)
    print(f'layer: {result[1] if result else "no result"}; {LOG}')
    good = result and ' 0 failed' in result[1] and result[1][0] != '0'
    return 0 if good and not lines else 1


if __name__ == '__main__':
    sys.exit(main())
