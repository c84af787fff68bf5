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

import dataclasses
import pathlib
import re

from docutils import nodes
import docutils.core
from docutils.parsers import rst

from lab.console import LabError

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


_MARKUP = re.compile(r'^ *\.\. (?:code-block|literalinclude)::', re.M)


class Wrong(LabError):
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


class _Code(rst.Directive):  # type: ignore[misc]
    """A block, for docutils without Sphinx."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = dict.fromkeys(
        ('class', 'caption', 'language'), rst.directives.unchanged
    )

    def run(self) -> list[nodes.Node]:
        argument = ''.join(self.arguments)
        text = '\n'.join([*self.content, ''])
        language = argument
        if self.name == 'literalinclude':
            page = pathlib.Path(self.state.document['source'])
            text = (page.parent / argument).read_text()
            language = self.options.get('language', 'text')
        found = nodes.literal_block()
        found['block'] = Block(
            line=self.lineno,
            section='',
            language=language,
            words=frozenset(self.options.get('class', '').split()),
            file=self.options.get('caption', ''),
            text=text,
            first=self.content_offset + 1,
        )
        return [found]


def read(path: pathlib.Path) -> list[Block]:
    """Read all blocks of a chapter, in their order.

    :raises Wrong: if a block has no purpose
    """
    for name in ('code-block', 'literalinclude'):
        rst.directives.register_directive(name, _Code)
    # Sphinx knows the other directives and roles, which matter to nobody here.
    text = path.read_text()
    document = docutils.core.publish_doctree(
        text,
        str(path),
        settings_overrides={'report_level': 5, '_disable_config': True},
    )
    blocks = []
    section = ''
    for found in document.findall():
        if isinstance(found, nodes.title):
            section = found.astext()
        elif isinstance(found, nodes.literal_block) and 'block' in found:
            block = dataclasses.replace(found['block'], section=section)
            _check(block)
            blocks.append(block)
    if len(blocks) != len(_MARKUP.findall(text)):
        raise Wrong('a block is in a directive that hides it')
    return blocks


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
