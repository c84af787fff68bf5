# SPDX-License-Identifier: Apache-2.0
"""The command line of the lab: ``python -m lab COMMAND``."""

import argparse
from collections.abc import Callable
import os
import pathlib
import signal
import sys

from lab import (
    config,
    console,
    leftovers,
    namespace,
    node,
    paths,
    preflight,
    process,
    second,
)
from lab.console import LabError

# Variables of the user that a program in the lab gets as well.
_PASSED_ON = ('COLUMNS', 'LANG', 'LINES', 'TERM')


def main() -> int:
    """Run one command and return the exit code."""
    options = _parser().parse_args()
    # User nova has to see what the lab writes.
    os.umask(0o022)
    try:
        preflight.require_root()
        code = options.run(options)
        sys.stdout.flush()
        return code
    except LabError as error:
        console.fail(error)
        return 1
    except BrokenPipeError:
        if not console.let_go_of_output():
            raise
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print('lab: interrupted; "up" goes on, "down" cleans up')
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='python -m lab', description=__doc__)
    commands = parser.add_subparsers(metavar='COMMAND', required=True)

    # Commands with an underscore are those parts of the others that run in
    # the lab's namespaces.
    for name, run in (('up', _up), ('_up', _up_inside)):
        added = _add(commands, name, run, 'start what is not running')
        added.add_argument(
            '--stock-compute',
            action='store_true',
            help="with Nova's own nova-compute in the place of ours",
        )
        if run is _up:
            added.add_argument(
                '--computes',
                type=int,
                choices=(0, 1, 2),
                help="how many compute hosts on this machine's own kernel a "
                'new lab has; 1 unless said, with --node 0 where that kernel '
                'cannot hold reservations',
            )
            _add_node(added)
    for name, run in (('kill', _kill), ('_kill', _kill_inside)):
        added = _add(
            commands, name, run, 'let the second compute or a node die at once'
        )
        added.add_argument('name', nargs='?', metavar='NODE')
    _add(commands, '_node-image', _node_image, '')
    for name, run in (('down', _down), ('_stop', _stop_inside)):
        _add(commands, name, run, 'stop and remove everything')
    for name, run in (('status', _status), ('_status', _status_inside)):
        _add(commands, name, run, 'list the services; 3 if one is down')
    for name, run in (('restart', _restart), ('_restart', _restart_inside)):
        added = _add(commands, name, run, 'restart services')
        added.add_argument('names', nargs='+', metavar='NAME')
        added.add_argument(
            '--stock',
            action='store_true',
            help="Nova's own nova-compute in the place of ours",
        )
    added = _add(commands, 'logs', _logs, "show the services' logs")
    added.add_argument('name', nargs='?', metavar='NAME')
    added.add_argument('-f', '--follow', action='store_true')
    added = _add(commands, 'ssh', _ssh, 'run a command on a node, or a shell')
    added.add_argument('name', metavar='NODE')
    added.add_argument('command', nargs=argparse.REMAINDER)
    added = _add(commands, 'exec', _exec, 'run a command in the lab as admin')
    added.add_argument('command', nargs=argparse.REMAINDER)
    _add(commands, 'shell', _shell, 'start a shell in the lab as admin')
    for name, run in (('tempest', _tempest), ('_tempest', _tempest_inside)):
        added = _add(
            commands, name, run, 'compare with stock nova-compute by tempest'
        )
        added.add_argument('--regex')
        added.add_argument('--workers', type=int)
        added.add_argument('--at-least', type=int, metavar='TESTS')
        added.add_argument(
            '--rt',
            action='store_true',
            help='with real-time flavors, under nova-rt-compute alone',
        )
    for name, run in (
        ('tempest-plugin', _plugin),
        ('_tempest-plugin', _plugin_inside),
    ):
        added = _add(commands, name, run, "run nova_rt's plug-in of tempest")
        added.add_argument('--regex')
        added.add_argument(
            '--include-list',
            type=lambda name: pathlib.Path(name).resolve(),
            metavar='FILE',
            help='of regular expressions, one a line',
        )
        added.add_argument('--workers', type=int)
    added = _add(commands, 'demo', _demo, 'show what it does for a user')
    _add_node(added)
    _add(commands, '_demo', _demo_inside, '')
    _add(commands, 'image', _image, "build the containers' image")
    _add(commands, 'env', _env, "print the admin's environment")
    _add(commands, 'leftovers', _leftovers, 'list what is on this machine')
    return parser


def _add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--node',
        type=node.parse,
        metavar='hcbs|stock[=NUMBER]',
        help='compute hosts that a new lab has in virtual machines, on the '
        "kernel that guarantees, which is built for them, or on Debian's with "
        'nova-rt-sched; one unless said',
    )


def _add(
    commands: 'argparse._SubParsersAction[argparse.ArgumentParser]',
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    if name.startswith('_'):
        added = commands.add_parser(name)
    else:
        added = commands.add_parser(name, description=text, help=text)
    added.set_defaults(run=run)
    return added


# cloud, and with it the SDK, takes a second to import: only where needed.
def _up(options: argparse.Namespace) -> int:
    from lab import cloud

    stock = ['--stock-compute'] if options.stock_compute else []
    return cloud.up(stock, options.computes, options.node)


def _up_inside(options: argparse.Namespace) -> int:
    from lab import cloud

    cloud.up_inside(options.stock_compute)
    print(f'client: {console.SUDO}{paths.BIN}/openstack server list')
    print(f'shell:  {console.SUDO}{sys.executable} -m lab shell')
    return 0


def _down(options: argparse.Namespace) -> int:
    from lab import cloud

    return cloud.down()


def _stop_inside(options: argparse.Namespace) -> int:
    from lab import cloud

    cloud.stop_inside()
    return 0


def _kill(options: argparse.Namespace) -> int:
    from lab import cloud

    name = [options.name] if options.name else []
    with cloud.lock():
        return namespace.run_module(_up_or_fail(), 'lab', ['_kill', *name])


def _kill_inside(options: argparse.Namespace) -> int:
    from lab import cloud

    cloud.kill_inside(options.name)
    return 0


def _node_image(options: argparse.Namespace) -> int:
    from lab.node import image

    image.make()
    return 0


def _ssh(options: argparse.Namespace) -> int:
    own = {each.name: each for each in node.nodes()}
    if options.name not in own:
        listed = ', '.join(own) or 'none'
        raise LabError(f'no node {options.name!r}; there are: {listed}')
    return _enter(own[options.name].command(*options.command))


def _status(options: argparse.Namespace) -> int:
    kept = namespace.holder()
    if not kept:
        print('the lab is down')
        return 3
    return namespace.run_module(kept, 'lab', ['_status'])


def _status_inside(options: argparse.Namespace) -> int:
    from lab import cloud

    return cloud.status_inside()


def _restart(options: argparse.Namespace) -> int:
    from lab import cloud

    stock = ['--stock'] if options.stock else []
    with cloud.lock():
        return namespace.run_module(
            _up_or_fail(), 'lab', ['_restart', *stock, *options.names]
        )


def _restart_inside(options: argparse.Namespace) -> int:
    from lab import cloud

    cloud.restart_inside(options.names, options.stock)
    return 0


def _logs(options: argparse.Namespace) -> int:
    logs = sorted(paths.LOG.glob('*.log'))
    if options.name:
        logs = [paths.LOG / f'{options.name}.log']
        if not logs[0].exists():
            raise LabError(f'no log of {options.name!r} in {paths.LOG}')
    if not logs:
        raise LabError(f'no logs in {paths.LOG}')
    follow = ['-F'] if options.follow else []
    lines = '100' if options.name else '5'
    os.execvp('tail', ['tail', '-n', lines, *follow, *map(str, logs)])


def _exec(options: argparse.Namespace) -> int:
    if not options.command:
        raise LabError('exec: which command?')
    return _enter(options.command)


def _shell(options: argparse.Namespace) -> int:
    prompt = f'({namespace.HOST_NAME}) \\w # '
    print('The OpenStack client is "openstack"; "exit" leaves the lab.')
    return _enter(['env', f'PS1={prompt}', 'bash', '--norc', '-i'])


def _enter(command: list[str]) -> int:
    environment = {
        name: os.environ[name] for name in _PASSED_ON if name in os.environ
    }
    environment |= {'HOME': os.environ.get('HOME', '/root')}
    environment |= config.user_environment()
    if not namespace.inside():
        # The lab's /run is another.
        cwd = os.getcwd()
        cwd = '/' if cwd.startswith('/run/') else cwd
        command = [*namespace.enter_command(_up_or_fail(), cwd), *command]
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def _up_or_fail() -> process.Process:
    kept = namespace.holder()
    if not kept:
        raise LabError('the lab is down; "python -m lab up" starts it')
    return kept


def _tempest(options: argparse.Namespace) -> int:
    names = ('regex', 'workers', 'at_least', 'rt')
    return _up_and_run('_tempest', options, *names)


def _up_and_run(command: str, options: argparse.Namespace, *names: str) -> int:
    from lab import cloud

    given = []
    for name in names:
        value = getattr(options, name)
        option = f'--{name.replace("_", "-")}'
        if value is True:
            given.append(option)
        elif value is not None and value is not False:
            given.append(f'{option}={value}')
    return cloud.up_and_run('lab', [command, *given])


def _tempest_inside(options: argparse.Namespace) -> int:
    from lab import cloud, compare

    # It restarts nova-compute more than once.
    with cloud.lock():
        return compare.run(
            options.regex or compare.REGEX,
            options.workers or compare.WORKERS,
            compare.AT_LEAST if options.at_least is None else options.at_least,
            options.rt,
        )


def _plugin(options: argparse.Namespace) -> int:
    names = ('regex', 'include_list', 'workers')
    return _up_and_run('_tempest-plugin', options, *names)


def _plugin_inside(options: argparse.Namespace) -> int:
    from lab import plugin

    return plugin.run(
        plugin.choice(options.regex, options.include_list),
        options.workers or plugin.WORKERS,
    )


def _demo(options: argparse.Namespace) -> int:
    """Tell the story; a new lab has a node if this kernel holds nothing."""
    from lab import cloud

    computes, nodes = None, options.node
    if second.computes() is None:
        if not nodes and not preflight.has_interface():
            nodes = node.parse('hcbs')
        computes = 0 if nodes else None
    return cloud.up_and_run('lab', ['_demo'], computes, nodes)


def _demo_inside(options: argparse.Namespace) -> int:
    from lab.demo import node_story, story

    (node_story if node.nodes() else story).tell()
    return 0


def _image(options: argparse.Namespace) -> int:
    from lab import cloud

    cloud.build_image()
    return 0


def _env(options: argparse.Namespace) -> int:
    for name, value in config.user_environment().items():
        print(f"export {name}='{value}'")
    return 0


def _leftovers(options: argparse.Namespace) -> int:
    found = leftovers.find()
    print('\n'.join(found) or 'nothing')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
