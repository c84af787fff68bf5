# SPDX-License-Identifier: Apache-2.0
"""Registrations in the guest with the HCBS kernel, under a virtual clock.

Kamailio and MariaDB are in a control group on CPU 0, the noise in another.
SIPp has CPU 1. Virtual time counts the instructions of both CPUs, one in a
nanosecond, and both always have something to do: each is as fast as half of
that, whatever the other does. Such a CPU does less than a current one, so that
there are fewer registrations than in the paper.
"""

import collections
import pathlib
import re
import subprocess
import tempfile

from experiments import guest
from experiments.ims import image
from lab.measure import distribution
from nova_rt.model import confidence

CPUS = 2
MEMORY_MIB = 2560
#: Registrations in 100 ms, and milliseconds of each task of the noise.
RATE = 40
NOISE_MS = 6
RESERVATION, NOISE_RESERVATION = '1400/2000', '24000/100000'
LIMIT_S = 4 * 3600
#: Of each case.
TURNS = confidence.BATCHES
_HERE = pathlib.Path(__file__).parent
_CASES = 4


def _initrd(out: pathlib.Path) -> None:
    """Write an initramfs of the image's tree and the guest's programs."""
    with out.open('wb') as file, tempfile.TemporaryDirectory() as name:
        own = pathlib.Path(name)
        # It becomes the guest's /.
        own.chmod(0o755)
        (own / 'init').write_bytes((_HERE / 'guest/cases').read_bytes())
        (own / 'init').chmod(0o755)
        (own / 'root').mkdir()
        noise = (_HERE / 'guest/noise.pl').read_bytes()
        (own / 'root/noise.pl').write_bytes(noise)
        for tree in (image.ROOT, own):
            # One archive after the other: the second adds to the first.
            names = subprocess.run(
                ['find', '.', '-xdev', '-print0'],
                cwd=tree, check=True, stdout=subprocess.PIPE,
            ).stdout  # fmt: skip
            subprocess.run(
                ['cpio', '--null', '-o', '-H', 'newc', '--quiet'],
                cwd=tree, check=True, input=names, stdout=file,
            )  # fmt: skip
            file.flush()


def measure(
    count: int, rate: int, log: pathlib.Path
) -> list[distribution.Series]:
    """Measure the four cases in turns.

    :param count: registrations of each, divided among :data:`TURNS`
    :param rate: registrations in 100 ms
    :param log: file for the guest's console
    :returns: all turns, in order
    :raises guest.Failed: if it did not measure
    """
    in_turn = -(-count // TURNS)
    kernel = guest.kernel('hcbs', 'ims')
    image.build()
    with tempfile.NamedTemporaryFile(dir=log.parent) as files:
        _initrd(pathlib.Path(files.name))
        try:
            subprocess.run(
                guest.command(
                    kernel, pathlib.Path(files.name), str(log), CPUS,
                    memory_mib=MEMORY_MIB,
                    words=f'turns={TURNS} count={in_turn} rate={rate} '
                    f'noise_ms={NOISE_MS}',
                ),
                check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as err:
            raise guest.Failed(f'QEMU did not run to its end: {log}') from err
    text = log.read_text(errors='replace').replace('\r', '')
    guest.check(text, log)
    return parse(text, in_turn)


def parse(text: str, count: int) -> list[distribution.Series]:
    """Read the output of the guest.

    :param count: registrations in a turn
    :returns: all turns, in order
    :raises guest.Failed: if a turn is missing, or most of it failed
    """
    found = []
    for turn in re.split(r'^case ', text, flags=re.M)[1:]:
        name = turn.split('\n', 1)[0]
        server, beside = name.split(',')
        times: list[int | None] = [
            round((float(s1) - float(s0)) * 1e6 + float(us1) - float(us0))
            for s0, us0, s1, us1 in re.findall(
                r'^([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+)$', turn, re.M
            )
        ]
        if len(times) < count / 2:
            raise guest.Failed(f'{name}: {len(times)} of {count} answered')
        times += [None] * (count - len(times))
        found.append(distribution.Series.of(server, beside, times))
    each = collections.Counter((turn.server, turn.beside) for turn in found)
    if sorted(each.values()) != [TURNS] * _CASES:
        raise guest.Failed(f'not {TURNS} turns of {_CASES} cases: {each}')
    return found
