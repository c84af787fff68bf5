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
import itertools
import json
import os
import signal
import sys
import time

from lab.console import LabError, say, tail
from tools.devstack_run import places, steps

REGEX = '^nova_rt_tempest_plugin'


def main(arguments: list[str]) -> int:
    """Run the steps of the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog='devstack-run',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='exec [-u USER] CMD... runs a command in the container.',
    )
    parser.add_argument(
        '--regex', default=REGEX, help='tests that the step tempest runs'
    )
    parser.add_argument('--workers', type=int, default=2)
    parser.set_defaults(git_base=os.environ.get('GIT_BASE', ''))
    parser.add_argument(
        '--set',
        action='append',
        default=[],
        metavar='NAME=VALUE',
        help="added to local.conf by the step up, such as NOVA_RT_HINTS=deny",
    )
    parser.add_argument(
        'steps',
        nargs='+',
        metavar='STEP',
        choices=[*steps.STEPS, 'all'],
        help=f'{", ".join(steps.STEPS)}; all',
    )
    if arguments[:1] == ['exec'] and len(arguments) > 1:
        script = str(places.CONTAINER_SH)
        os.execv(script, [script, 'exec', places.NAME, *arguments[1:]])
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.exit('devstack-run: this needs root')
    # As an interrupt from the keyboard: what runs in the container is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = itertools.chain.from_iterable(
        steps.ALL if name == 'all' else [name] for name in options.steps
    )
    try:
        return run_all(wanted, options)
    except KeyboardInterrupt:
        sys.exit('devstack-run: interrupted; the container is as it is')


def run_all(names: Iterable[str], options: steps.Options) -> int:
    """Run steps one after the other, and tell how they ended."""
    table = [f'{"step":<11}{"time":>8}{"exit":>6}']
    found, failed = [], False
    for name in names:
        clock = time.monotonic()
        note, facts = run_step(name, options)
        seconds = time.monotonic() - clock
        say(
            f'{name}: exit {int(bool(note))} in {seconds:.0f} s {note}'.strip()
        )
        table.append(
            f'{name:<11}{seconds:>6.0f} s{int(bool(note)):>6}  {note}'.strip()
        )
        if facts:
            found.append(f'{name}: {json.dumps(facts)}')
        failed = failed or bool(note)
        if note and name in steps.NEEDED:
            say('what comes after it is not tried; the container is as it is')
            break
    print('\n'.join([*table, '', *found]), flush=True)
    return int(failed)


def run_step(name: str, options: steps.Options) -> tuple[str, steps.Facts]:
    """Run one step; return why it failed, or '', and its facts."""
    places.LOG.mkdir(parents=True, exist_ok=True)
    number = len(list(places.LOG.iterdir())) + 1
    log = places.LOG / f'{number:03d}-{name}.log'
    log.touch()
    say(f'{name}: {steps.STEPS[name].__doc__} Log: {log}')
    options.log = log
    try:
        return '', steps.STEPS[name](options)
    except LabError as error:
        if error.log:
            print(tail(error.log))
        return str(error), {}
