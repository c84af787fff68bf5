# SPDX-License-Identifier: Apache-2.0
"""Points, measured in a QEMU guest whose clock counts instructions.

The kernel is kernel/scripts/build.sh's with kernel/config/net.config. A run is
the same wherever it is made and whatever else the machine does.

Several CPUs take turns in QEMU, and virtual time counts the instructions of
all of them. A server that uses CPU time by the clock notices only the end of
its time, which it sees when its turn comes, up to 1.6 ms late; the kernel's
own work takes several times as long.
"""

from collections.abc import Sequence
import dataclasses
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from experiments import samples
from experiments.description import Point

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = HERE.parent / 'kernel'
WORK = pathlib.Path(
    os.environ.get('NOVA_RT_KERNEL', '/var/lib/nova-rt-kernel')
)
#: The guest's programs of the network, from this machine.
TOOLS = ('ip', 'tc')
LIMIT_S = 24 * 3600


class Failed(Exception):
    """A guest did not measure; the text names the log."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A point to measure.

    :ivar count: number of requests
    :ivar seed: seed of random numbers; the same seed gives the same requests
    """

    name: str
    point: Point
    count: int
    seed: int

    def line(self) -> str:
        """The words of the guest's init."""
        return self.point.line(self.name, self.count, self.seed)


@dataclasses.dataclass(frozen=True)
class Load:
    """Programs that send requests and answer them.

    :ivar source: source of the guest's program load
    :ivar programs: programs that it starts, from bin
    :ivar cpus: CPUs that it takes beside the server's
    """

    source: pathlib.Path = HERE / 'load/load.c'
    programs: tuple[pathlib.Path, ...] = ()
    cpus: int = 0


OURS = Load()


def kernel(which: str, flavour: str = 'net') -> pathlib.Path:
    """Build a kernel, unless it is there already.

    :param which: hcbs, or base for the one without the series
    :param flavour: name of its configuration in kernel/config
    :raises Failed: if it cannot be built
    """
    done = subprocess.run(
        [KERNEL / 'scripts/build.sh', which, flavour],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise Failed(f'the kernel {which} was not built, see above')
    return pathlib.Path(done.stdout.strip())


def compile_c(source: pathlib.Path, out: pathlib.Path) -> None:
    """Compile a static program.

    :raises Failed: if the compiler fails
    """
    done = subprocess.run(
        [
            *('gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-static'),
            *('-o', out, source, '-lm'),
        ],
        check=False,
    )
    if done.returncode:
        raise Failed(f'{source} was not compiled')


def archive(root: pathlib.Path) -> bytes:
    """A directory as an initramfs of the kernel; the same bytes each time."""
    for path in (root, *root.rglob('*')):
        os.utime(path, (0, 0))
    names = sorted(str(path.relative_to(root)) for path in root.rglob('*'))
    made = subprocess.run(
        ['cpio', '-o', '-H', 'newc', '--quiet', '--reproducible'],
        cwd=root,
        check=True,
        input='\n'.join(names).encode(),
        stdout=subprocess.PIPE,
    )
    return gzip.compress(made.stdout, mtime=0)


def find_tool(name: str) -> pathlib.Path:
    """Find a program of the network on this machine.

    :raises Failed: if it is missing
    """
    path = shutil.which(name, path='/usr/sbin:/sbin:/usr/bin:/bin')
    if not path:
        raise Failed(f'{name} is missing: install iproute2')
    return pathlib.Path(path)


def copy_program(path: pathlib.Path, root: pathlib.Path) -> None:
    """Copy a program of this machine with the libraries that it loads."""
    (root / 'bin').mkdir(exist_ok=True)
    shutil.copy(path, root / 'bin' / path.name)
    listing = subprocess.run(
        ['ldd', path], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for library in re.findall(r'(/\S+) \(0x', listing):
        target = root / library.lstrip('/')
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def initrd(tasks: Sequence[Task], load: Load = OURS) -> bytes:
    """The guest's files: init, load, its tools and its tasks."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for each in ('proc', 'sys', 'dev', 'cg'):
            (root / each).mkdir()
        compile_c(HERE / 'guest/init.c', root / 'init')
        compile_c(load.source, root / 'load')
        for program in (*map(find_tool, TOOLS), *load.programs):
            copy_program(program, root)
        lines = [f'{task.line()}\n' for task in tasks]
        (root / 'plan').write_text(''.join(lines))
        return archive(root)


def command(
    image: pathlib.Path,
    files: pathlib.Path,
    log: str,
    cpus: int,
    *,
    memory_mib: int = 512,
    words: str = '',
) -> list[str]:
    """The command line of QEMU, as in kernel/scripts/guest.sh.

    :param words: more of the kernel's command line
    """
    return [
        *('nice', '-n', os.environ.get('GUEST_NICE', '10')),
        os.environ.get('QEMU', 'qemu-system-x86_64'),
        *('-accel', 'tcg', '-icount', 'shift=0,sleep=off'),
        *('-rtc', 'base=2026-01-01,clock=vm', '-seed', '1', '-cpu', 'max'),
        *('-smp', str(cpus), '-m', str(memory_mib)),
        *('-nodefaults', '-no-user-config'),
        *('-no-reboot', '-display', 'none', '-serial', f'file:{log}'),
        *('-kernel', str(image), '-initrd', str(files)),
        '-append',
        'console=ttyS0 panic=-1 nokaslr norandmaps tsc=reliable '
        f'rdinit=/init loglevel=5 {words}'.rstrip(),
    ]


def _begin(which: str, tasks: Sequence[Task], load: Load = OURS) -> str:
    """The beginning of a log: the kernel, and the tasks on it."""
    lines = [f'PLAN {task.line()}\n' for task in tasks]
    if load.programs:
        names = ' '.join(program.name for program in load.programs)
        lines.append(f'PLAN BY {names}\n')
    return ''.join([f'KERNEL {which}\n', *lines])


def stored(
    which: str, tasks: Sequence[Task], cache: pathlib.Path
) -> dict[str, samples.Run]:
    """Read the latest measurement, by whatever kernel and programs.

    :param cache: directory for the logs
    :returns: the measured runs, by the names of the tasks
    :raises Failed: if these points were not measured
    """
    begin = _begin(which, tasks)
    logs = sorted(
        cache.glob('*.log'), key=lambda log: log.stat().st_mtime, reverse=True
    )
    for log in logs:
        text = log.read_text()
        if text.startswith(begin) and not text[len(begin) :].startswith(
            'PLAN '
        ):
            return samples.parse(text)
    raise Failed(
        f'{cache} has no samples of these {len(tasks)} points, '
        f'{which}: measure them first'
    )


def run(
    which: str,
    tasks: Sequence[Task],
    cache: pathlib.Path,
    load: Load = OURS,
) -> dict[str, samples.Run]:
    """Measure points on a kernel, or read an earlier measurement.

    :param tasks: all with the same number of CPUs
    :param cache: directory for the logs, by the hash of kernel and files
    :returns: the measured runs, by the names of the tasks
    :raises Failed: if a point was not measured, or the kernel complains
    """
    (cpus,) = {task.point.cpus + load.cpus for task in tasks}
    image = kernel(which)
    files = initrd(tasks, load)
    key = hashlib.sha256(image.read_bytes() + files).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f'{key}.log'
    if not log.exists():
        with tempfile.NamedTemporaryFile(dir=cache, suffix='.initrd') as file:
            file.write(files)
            file.flush()
            new = log.with_suffix('.new')
            begin = time.monotonic()
            try:
                subprocess.run(
                    command(image, pathlib.Path(file.name), str(new), cpus),
                    check=True,
                    timeout=LIMIT_S,
                    stdin=subprocess.DEVNULL,
                )
            except (OSError, subprocess.SubprocessError) as err:
                raise Failed(
                    f'QEMU did not run to its end, see {new}'
                ) from err
        text = new.read_text(errors='replace').replace('\r', '')
        check(text, new)
        seconds = time.monotonic() - begin
        new.write_text(
            f'{_begin(which, tasks, load)}{text}host_seconds {seconds:.1f}\n'
        )
        new.rename(log)
    return samples.parse(log.read_text())


def check(text: str, log: pathlib.Path) -> None:
    """Refuse the log of a guest that did not do everything.

    :raises Failed: with the first line that shows it
    """
    patterns = (KERNEL / 'tests/tools/complaints').read_text().split('\n')
    wrong = re.compile('|'.join(['FATAL.*', *filter(None, patterns)]))
    found = wrong.search(text)
    if found:
        raise Failed(f'the guest reports {found[0][:80]!r}, see {log}')
    if not re.search(r'^DONE failures 0$', text, re.M):
        raise Failed(f'the guest did not measure everything, see {log}')
