# SPDX-License-Identifier: Apache-2.0
"""Text that is fit for a terminal, whoever wrote it."""

import unicodedata

# Control characters, those that change the direction of what follows, lone
# surrogates, private and unassigned characters, line and paragraph separators.
_HIDDEN = {'Cc', 'Cf', 'Cs', 'Co', 'Cn', 'Zl', 'Zp'}


def escape(text: str) -> str:
    r"""Write characters that a terminal would act upon as ``\x1b``.

    :param text: from a database, a service or a user
    :returns: the same text with nothing in it that moves the cursor, changes
        a colour or hides what follows
    """
    if text.isascii() and text.isprintable():
        return text
    return ''.join(
        _escape(each) if unicodedata.category(each) in _HIDDEN else each
        for each in text
    )


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f'\\x{number:02x}'
    return f'\\u{number:04x}' if number < 0x10000 else f'\\U{number:08x}'
