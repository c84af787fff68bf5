# SPDX-License-Identifier: Apache-2.0
"""The programs of the stand-in's machine, all in this file.

Each is called by a file of its name in the one directory of PATH. None touches
anything outside of the directory that is the machine: a path there is below
``root``, and what programs keep (packages, units, domains, ...) beside it.

A run of stack.sh starts a hundred of them, so modules that take long to import
are imported where they are needed.
"""

from collections.abc import Callable
import os
import sys

WORLD = os.environ['STANDIN_WORLD']
ROOT = f'{WORLD}/root'
BIN = f'{ROOT}/opt/stack/data/venv/bin'
UNITS = f'{ROOT}/etc/systemd/system'
#: Directories in which the user that runs DevStack may write without sudo.
OWN = tuple(
    f'{ROOT}/{name}/' for name in ('opt/stack', 'etc/neutron', 'etc/nova')
)
#: A program of the package.
FAKE = '#!/bin/sh\nexec {world}/programs/standin fake {name} "$@"\n'

PROGRAMS: dict[str, Callable[[list[str]], int]] = {}


class Refused(Exception):
    """The plug-in did what a machine would not let it do, or the test."""


def program(run: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """Have a function as a program of its name.

    :returns: the function
    """
    PROGRAMS[run.__name__.replace('_', '-')] = run
    return run


def place(text: str) -> str:
    """A path that may be changed.

    :returns: it, absolute
    :raises Refused: if it is not the machine's, or takes sudo
    """
    path = os.path.normpath(os.path.join(os.getcwd(), text))
    if path.startswith(f'{WORLD}/tmp/'):
        return path
    if not path.startswith(f'{ROOT}/'):
        raise Refused(f'{path} is outside of the machine')
    if not path.startswith(OWN) and 'STANDIN_SUDO' not in os.environ:
        raise Refused(f'{path} takes sudo')
    return path


def read(path: str) -> str:
    """The text of a file."""
    with open(path) as file:
        return file.read()


def write(path: str, text: str, mode: str = 'w') -> None:
    """Write or add to a file."""
    with open(path, mode) as file:
        file.write(text)


def kept(kind: str, name: str = '') -> str:
    """Return the path at which programs keep something, such as a package."""
    return f'{WORLD}/{kind}/{name}'


def drop(path: str) -> None:
    """Remove a file or a tree, if it is there."""
    if os.path.isdir(path):
        import shutil

        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def listed(kind: str) -> list[str]:
    """List what programs keep of a kind, sorted."""
    return sorted(os.listdir(kept(kind)))


def note(*words: str) -> None:
    """Note a call for the tests."""
    write(f'{WORLD}/calls', ' '.join(words) + '\n', 'a')


def unknown(*words: str) -> int:
    """Note a call that nothing answers.

    :returns: the exit code for it
    """
    write(f'{WORLD}/unknown', ' '.join(words) + '\n', 'a')
    return 127


def plain(words: list[str]) -> list[str]:
    """The words that are no options."""
    return [word for word in words if not word.startswith('-')]


# Files


@program
def mkdir(words: list[str]) -> int:
    for word in plain(words):
        if '-p' in words:
            os.makedirs(place(word), exist_ok=True)
        else:
            os.mkdir(place(word))
    return 0


@program
def rm(words: list[str]) -> int:
    for word in plain(words):
        drop(place(word))
    return 0


@program
def rmdir(words: list[str]) -> int:
    for word in plain(words):
        path = place(word)
        found = os.listdir(path)
        if '/sys/fs/cgroup/' in path:
            # The kernel's files do not count.
            found = [name for name in found if os.path.isdir(f'{path}/{name}')]
        if found:
            return int('--ignore-fail-on-non-empty' not in words)
        drop(path)
    return 0


@program
def cp(words: list[str]) -> int:
    source, target = plain(words)
    target = place(target)
    if os.path.isdir(target):
        target = f'{target}/{os.path.basename(source)}'
    write(target, read(source))
    return 0


@program
def touch(words: list[str]) -> int:
    for word in plain(words):
        write(place(word), '', 'a')
    return 0


@program
def tee(words: list[str]) -> int:
    text = sys.stdin.read()
    for word in plain(words):
        write(place(word), text)
    print(text, end='')
    return 0


@program
def install(words: list[str]) -> int:
    source, target = words[-2:]
    write(place(target), read(source))
    return 0


@program
def sed(words: list[str]) -> int:
    if any(word.startswith('-i') for word in words):
        raise Refused('sed -i writes where it likes')
    os.execv('/usr/bin/sed', ['sed', *words])


# The machine


@program
def sudo(words: list[str]) -> int:
    os.environ['STANDIN_SUDO'] = '1'
    name, *rest = words
    if name in PROGRAMS:
        return PROGRAMS[name](rest)
    if name.startswith(f'{BIN}/'):
        os.execv(name, words)
    return unknown('sudo', name)


@program
def uname(words: list[str]) -> int:
    print('6.1.0-standin')
    return 0


@program
def modprobe(words: list[str]) -> int:
    """Only modules of the kernel, or what /etc/modprobe.d says."""
    rules = f'{ROOT}/etc/modprobe.d'
    for name in os.listdir(rules):
        if f'install {words[0]} /bin/true' in read(f'{rules}/{name}'):
            return 0
    return int(not os.path.exists(kept('module', words[0])))


@program
def dpkg(words: list[str]) -> int:
    note('dpkg', *words)
    return 0


@program
def dpkg_divert(words: list[str]) -> int:
    file = place(words[-1])
    pair = (file, f'{file}.nova-rt')
    noted = kept('diverted', os.path.basename(file))
    if '--add' in words:
        # Also for a file that only a later package brings.
        write(noted, '')
        source, target = pair
    else:
        drop(noted)
        target, source = pair
    if os.path.exists(source):
        os.rename(source, target)
    return 0


@program
def systemctl(words: list[str]) -> int:
    verb, *units = plain(words)
    match verb:
        case 'daemon-reload' | 'disable' | 'reload':
            note('systemctl', *words)
        case 'mask':
            write(kept('masked', units[0]), '')
        case 'unmask':
            drop(kept('masked', units[0]))
        case 'is-enabled':
            masked = os.path.exists(kept('masked', units[0]))
            print('masked' if masked else 'static')
            return int(masked)
        case _:
            return unknown('systemctl', *words)
    return 0


@program
def ovs_vsctl(words: list[str]) -> int:
    if not os.path.exists(kept('service', 'ovsdb-server.service')):
        # DevStack looks at it first.
        limited = any(word.startswith('--timeout=') for word in words)
        if not limited and 'clear' not in words:
            raise Refused('ovs-vsctl would wait for ever')
        return 1
    match plain(words):
        case ['show']:
            pass
        case ['set', _, _, *pairs]:
            for pair in pairs:
                column, _, setting = pair.partition(':')
                write(kept('switch', setting), column)
        case ['clear', _, _, cleared]:
            _unset(lambda name: read(kept('switch', name)) == cleared)
        case ['remove', _, _, _, key]:
            _unset(lambda name: name.startswith(f'{key}='))
        case _:
            return unknown('ovs-vsctl', *words)
    return 0


def _unset(wanted: Callable[[str], bool]) -> None:
    for name in filter(wanted, listed('switch')):
        drop(kept('switch', name))


@program
def virsh(words: list[str]) -> int:
    if words[:2] != ['-c', 'lxc:///']:
        raise Refused('virsh of another driver')
    match words[2:]:
        case ['list', '--all', '--name']:
            print(*listed('domain'), sep='\n', end='\n\n')
        case ['destroy', name]:
            if read(kept('domain', name)) != 'running':
                return 1
            write(kept('domain', name), 'shut off')
        case ['undefine', name]:
            if read(kept('domain', name)) == 'running':
                return 1
            drop(kept('domain', name))
        case _:
            return unknown('virsh', *words)
    return 0


@program
def mountpoint(words: list[str]) -> int:
    return int(words[-1] not in read(f'{WORLD}/mounts').splitlines())


@program
def umount(words: list[str]) -> int:
    mounts = read(f'{WORLD}/mounts').splitlines(keepends=True)
    mounts.remove(f'{words[-1]}\n')
    write(f'{WORLD}/mounts', ''.join(mounts))
    return 0


@program
def losetup(words: list[str]) -> int:
    match words:
        case ['--list', '--noheadings', '--output', 'NAME,BACK-FILE']:
            for name in listed('loop'):
                print(f'/dev/{name} {read(kept("loop", name))}')
        case ['--detach', device]:
            os.unlink(kept('loop', os.path.basename(device)))
        case _:
            return unknown('losetup', *words)
    return 0


# OpenStack


@program
def openstack(words: list[str]) -> int:
    """A cloud that takes no name twice."""
    note('openstack', *words)
    if words[:2] == ['--os-cloud', 'devstack-system-admin']:
        words = words[2:]
    match words:
        case ['flavor' | 'image' as kind, 'list', *_]:
            print(*listed(kind), sep='\n')
        case ['registered', 'limit', 'list', *_]:
            print(*listed('limit'), sep='\n')
        case ['flavor', 'create', name, *rest]:
            return _create('flavor', name, rest)
        case ['image', 'create', *rest, name]:
            read(rest[rest.index('--file') + 1])
            return _create('image', name, rest)
        case ['registered', 'limit', 'create', *rest, name]:
            return _create('limit', name, rest)
        case _:
            return unknown('openstack', *words)
    return 0


def _create(kind: str, name: str, rest: list[str]) -> int:
    if os.path.exists(kept(kind, name)):
        print(f'{kind} {name} exists', file=sys.stderr)
        return 1
    write(kept(kind, name), ' '.join(rest))
    return 0


def _fake(words: list[str]) -> int:
    """A program of the package."""
    name, *rest = words
    note(name, *rest)
    if name == 'nova-rt-manage' and 'specs' in rest:
        words = [*rest, '']
        options = {word: words[n + 1] for n, word in enumerate(rest)}
        print(
            'openstack flavor create', options['--name'],
            '--property', f'rt:reservation={options["--reservation"]}',
            '--property', f'rt:enforcement={options["--enforcement"]}',
        )  # fmt: skip
    code = kept('codes', ' '.join([name, *rest[-2:]]))
    return int(read(code)) if os.path.exists(code) else 0


# What the functions of DevStack do


@program
def standin(words: list[str]) -> int:
    match words:
        case ['fake', *rest]:
            return _fake(rest)
        case ['ini', verb, *rest]:
            _ini(verb, rest)
        case ['add', kind, name]:
            write(kept(kind, name), '')
        case ['remove', kind, *names]:
            for name in names or listed(kind):
                drop(kept(kind, name))
        case ['unit', verb, *rest]:
            _unit(verb, rest)
        case ['pip', 'install', *rest]:
            _pip_install(rest)
        case ['configure-nova', directory]:
            _configure_nova(directory)
        case ['note-variables']:
            write(f'{WORLD}/variables', sys.stdin.read())
        case _:
            raise Refused(f'standin {words}')
    return 0


def _ini(verb: str, words: list[str]) -> None:
    """Files as DevStack's functions read and write them.

    A new option comes right below its section; words of a value are divided
    by one blank.
    """
    if words[0] == '-sudo':
        os.environ['STANDIN_SUDO'] = '1'
        words = words[1:]
    path, section, option, *values = words
    lines = read(path).splitlines() if os.path.exists(path) else []
    head = f'[{section}]'
    if verb != 'get':
        os.makedirs(os.path.dirname(place(path)), exist_ok=True)
        if head not in lines:
            lines += ['', head]
    start = lines.index(head) + 1 if head in lines else len(lines)
    heads = (n for n, line in enumerate(lines) if line.startswith('['))
    end = next((n for n in heads if n >= start), len(lines))
    found = [
        number
        for number in range(start, end)
        if lines[number].partition('=')[0].strip() == option
    ]
    if verb == 'get':
        print(*(lines[number].partition('=')[2].strip() for number in found))
        return
    if verb == 'multiline':
        values = ' '.join(values).split()
    else:
        values = [' '.join(values[0].split())]
    at = found[0] if found and verb == 'set' else start
    for number in reversed(found):
        del lines[number]
    lines[at:at] = [f'{option} = {value}' for value in values]
    write(path, '\n'.join(lines) + '\n')


def _unit(verb: str, words: list[str]) -> None:
    match verb, words:
        case 'start', [service, command, *rest]:
            started = command.split()[0]
            if not command.startswith('/') or 'sudo' in command:
                raise Refused(f'{service}: systemd cannot run {command}')
            if started.startswith(ROOT) and not os.access(started, os.X_OK):
                raise Refused(f'{service}: there is no {started}')
            write(
                f'{UNITS}/devstack@{service}.service',
                f'[Service]\nExecStart = {command}\nGroup = {rest}\n',
            )
            write(kept('running', service), '')
        case 'stop', [service]:
            drop(kept('running', service))
        case 'delete-all', []:
            for name in os.listdir(UNITS):
                if os.path.isfile(f'{UNITS}/{name}'):
                    os.unlink(f'{UNITS}/{name}')


def _pip_install(words: list[str]) -> None:
    """Make the programs of what is installed from a directory."""
    import tomllib

    if '-e' not in words:
        return
    if '--no-deps' not in words:
        raise Refused('pip would look for a release of Nova')
    checkout = words[words.index('-e') + 1]
    project = tomllib.loads(read(f'{checkout}/pyproject.toml'))['project']
    for name in project['scripts']:
        _make_program(name, FAKE.format(world=WORLD, name=name))


def _make_program(name: str, text: str) -> None:
    os.makedirs(BIN, exist_ok=True)
    write(f'{BIN}/{name}', text)
    os.chmod(f'{BIN}/{name}', 0o755)


def _configure_nova(directory: str) -> None:
    """Write what lib/nova writes anew each time."""
    os.makedirs(directory, exist_ok=True)
    write(
        f'{directory}/nova.conf',
        '\n[filter_scheduler]\nenabled_filters = ComputeFilter\n',
    )
    write(f'{directory}/api-paste.ini', read(f'{WORLD}/api-paste.ini'))
    for name in ('nova-compute', 'nova-scheduler'):
        _make_program(name, '')


def main(name: str, words: list[str]) -> int:
    """Be a program.

    :returns: its exit code
    """
    try:
        return PROGRAMS[name](words)
    except Refused as refused:
        unknown(f'{name} {" ".join(words)}: {refused}')
        return 1
