# SPDX-License-Identifier: Apache-2.0
"""The blocks of the installation chapter, as data.

The options of a block give its purpose, in words that Sphinx passes on:

``:class:``
    where it is followed (on a ``controller``, on a ``compute`` host or both,
    or by an administrator of a ``cloud`` that runs), and more
    words; see :data:`WORDS`.
``:caption:``
    the file that the block is, or belongs to.

A block that says neither a place nor ``example`` is an error: nobody could
tell whether the chapter works without it.
"""

from collections.abc import Iterator
import dataclasses
import pathlib
import re
import textwrap

PLACES = frozenset({'controller', 'compute', 'cloud'})
WORDS = {
    'environment': 'what the Debian packages do by themselves',
    'edit': 'sets options in a file that is there',
    'kernel': 'needs bandwidth of the kernel for real-time tasks',
    'stock': "starts Nova's nova-compute, which never says that it serves",
    'remove': 'takes nova_rt off again',
    'second': 'needs a second compute host',
    'example': 'is only shown',
}
_DIRECTIVE = re.compile(r'( *)\.\. (code-block|literalinclude)::(.*)')
_OPTION = re.compile(r' *:([a-z-]+):(.*)')
_UNDERLINE = re.compile(r'([=\-~^"])\1{2,}')


class Wrong(Exception):
    """The chapter cannot be followed; the text says where and why."""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of a console block, and its required output.

    :ivar line: where it is in the chapter
    :ivar root: whether its prompt is root's
    :ivar text: without prompt, with its continued lines
    :ivar output: lines that it prints, according to the chapter
    """

    line: int
    root: bool
    text: str
    output: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of the chapter.

    :ivar line: of its directive
    :ivar section: the title above it
    :ivar language: ``console``, or that of the file
    :ivar words: of its class
    :ivar file: its caption; a file that is to be written or edited
    :ivar text: its content
    :ivar first: line of the chapter at which the content begins
    """

    line: int
    section: str
    language: str
    words: frozenset[str]
    file: str
    text: str
    first: int

    @property
    def places(self) -> frozenset[str]:
        """The places in which it is followed."""
        return self.words & PLACES

    def commands(self) -> list[Command]:
        """The commands of a console block.

        :raises Wrong: if a line is neither a command nor its output
        """
        found: list[Command] = []
        lines = iter(enumerate(self.text.splitlines(), self.first))
        for number, line in lines:
            if line.startswith(('# ', '$ ')):
                words = line[2:]
                while words.endswith('\\'):
                    _, more = next(lines, (0, ''))
                    words = f'{words}\n{more}'
                found.append(Command(number, line[0] == '#', words, ()))
            elif found and line.strip():
                last = found[-1]
                output = (*last.output, line.strip())
                found[-1] = dataclasses.replace(last, output=output)
            elif line.strip():
                raise Wrong(f'line {number}: no prompt before {line!r}')
        if not found:
            raise Wrong(f'line {self.line}: a console without a command')
        return found


def read(path: pathlib.Path) -> list[Block]:
    """Read all blocks of a chapter, in their order.

    :raises Wrong: if a block has no purpose
    """
    blocks = list(_blocks(path))
    for block in blocks:
        _check(block)
    return blocks


def _blocks(path: pathlib.Path) -> Iterator[Block]:
    lines = path.read_text().splitlines()
    section = ''
    for index, line in enumerate(lines):
        if index and _UNDERLINE.fullmatch(line) and lines[index - 1].strip():
            section = lines[index - 1].strip()
        found = _DIRECTIVE.fullmatch(line)
        if not found:
            continue
        margin, kind, argument = found.groups()
        options, first = _options(lines, index + 1)
        if kind == 'literalinclude':
            text = (path.parent / argument.strip()).read_text()
            language = options.get('language', 'text')
        else:
            text = _body(lines, first, len(margin))
            language = argument.strip()
        yield Block(
            line=index + 1,
            section=section,
            language=language,
            words=frozenset(options.get('class', '').split()),
            file=options.get('caption', ''),
            text=text,
            first=first + 1,
        )


def _options(lines: list[str], index: int) -> tuple[dict[str, str], int]:
    # The options below a directive, and the index of what comes after them
    # and the empty line.
    options = {}
    while index < len(lines) and (found := _OPTION.fullmatch(lines[index])):
        options[found[1]] = found[2].strip()
        index += 1
    while index < len(lines) and not lines[index].strip():
        index += 1
    return options, index


def _body(lines: list[str], first: int, margin: int) -> str:
    # All that is indented deeper than the directive.
    last = first
    for index in range(first, len(lines)):
        line = lines[index]
        if line.strip():
            if len(line) - len(line.lstrip()) <= margin:
                break
            last = index + 1
    return textwrap.dedent('\n'.join(lines[first:last])) + '\n'


def _check(block: Block) -> None:
    where = f'line {block.line}'
    unknown = block.words - PLACES - set(WORDS)
    if unknown:
        raise Wrong(f'{where}: what is {sorted(unknown)[0]!r}?')
    if 'example' in block.words:
        return
    if not block.places:
        raise Wrong(f'{where}: where is this block followed?')
    if not block.text.strip():
        raise Wrong(f'{where}: an empty block')
    if block.language == 'console':
        if block.file:
            raise Wrong(f'{where}: commands, or the file {block.file}?')
        block.commands()
    elif not block.file.startswith('/'):
        raise Wrong(f'{where}: which file is this?')
