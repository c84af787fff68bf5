# SPDX-License-Identifier: Apache-2.0
"""Runs DevStack with nova_rt's plug-in, for real.

    GIT_BASE=PLACE tools/devstack-run all

PLACE has the repositories of OpenStack: a directory (openstack/NAME.git), or
a URL. The steps can be run one by one; "all" runs them on a fresh tree, with
a second stack.sh at the end, and fails if one of them does or if something of
nova_rt is left. It takes about 50 minutes on two CPUs.
"""

import argparse
from collections.abc import Iterable
import dataclasses
import json
import os
import signal
import sys
import time

from lab.console import say
from tools.devstack_run import machine, places, steps
from tools.devstack_run.machine import RunError

REGEX = '^nova_rt_tempest_plugin'


@dataclasses.dataclass(frozen=True)
class Result:
    """One step that has run.

    :ivar note: why it failed, or a remark
    :ivar facts: versions, counts, values of the kernel
    """

    step: str
    seconds: float
    exit: int
    note: str
    facts: steps.Facts


def main(arguments: list[str]) -> int:
    """Run the steps of the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog='devstack-run',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--regex', default=REGEX, help='tests that the step tempest runs'
    )
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument(
        '--set',
        action='append',
        default=[],
        metavar='NAME=VALUE',
        help="added to local.conf by the step up, such as NOVA_RT_HINTS=deny",
    )
    parser.add_argument(
        'steps',
        nargs=argparse.REMAINDER,
        metavar='STEP...',
        help=f'{", ".join(steps.STEPS)}; all; exec [-u USER] CMD...',
    )
    options = parser.parse_args(arguments)
    try:
        wanted = chosen(options.steps)
    except RunError as error:
        parser.error(str(error))
    if os.geteuid() != 0:
        sys.exit('devstack-run: this needs root')
    # As an interrupt from the keyboard: what runs in the container is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if wanted[0] == 'exec':
        return execute(wanted[1:])
    try:
        return run_all(wanted, options)
    except KeyboardInterrupt:
        sys.exit('devstack-run: interrupted; the container is as it is')


def chosen(words: list[str]) -> list[str]:
    """Return the steps that the words of the command line mean.

    :raises RunError: if they mean none
    """
    if not words:
        raise RunError('which step?')
    if words[0] == 'exec':
        if len(words) < 2:
            raise RunError('exec: which command?')
        return words
    if words == ['all']:
        return list(steps.ALL)
    for word in words:
        if word not in steps.STEPS:
            raise RunError(f'there is no step {word}')
    return words


def execute(command: list[str]) -> int:
    """Become a command in the container."""
    sys.stdout.flush()
    script = str(places.CONTAINER_SH)
    os.execv(script, [script, 'exec', places.NAME, *command])


def run_all(names: Iterable[str], options: argparse.Namespace) -> int:
    """Run steps one after the other, and tell how they ended."""
    ran = []
    for name in names:
        ran.append(run_step(name, options))
        if ran[-1].exit and name in steps.NEEDED:
            say('what comes after it is not tried; the container is as it is')
            break
    if len(ran) > 1:
        print(table(ran), flush=True)
    return int(any(found.exit for found in ran))


def table(ran: Iterable[Result]) -> str:
    """Return a table of steps, and their facts in words."""
    lines = [f'{"step":<11}{"time":>8}{"exit":>6}']
    facts = []
    for found in ran:
        lines.append(
            f'{found.step:<11}{found.seconds:>6.0f} s{found.exit:>6}'
            f'  {found.note}'.rstrip()
        )
        if found.facts:
            facts.append(f'{found.step}: {json.dumps(found.facts)}')
    return '\n'.join([*lines, '', *facts])


def run_step(name: str, options: argparse.Namespace) -> Result:
    """Run one step and return its result."""
    places.LOG.mkdir(parents=True, exist_ok=True)
    number = len(list(places.LOG.iterdir())) + 1
    log = places.LOG / f'{number:03d}-{name}.log'
    log.touch()
    say(f'{name}: {steps.STEPS[name].__doc__} Log: {log}')
    clock = time.monotonic()
    code, note, facts = 0, '', {}
    try:
        facts = steps.STEPS[name](
            steps.Options(
                log,
                os.environ.get('GIT_BASE', ''),
                options.regex,
                options.workers,
                options.set,
            )
        )
    except RunError as error:
        code, note = 1, str(error)
        for line in machine.tail(error.log) if error.log else ():
            print(f'  | {line}')
    result = Result(name, time.monotonic() - clock, code, note, facts)
    say(f'{name}: exit {code} in {result.seconds:.0f} s {note}'.rstrip())
    return result
