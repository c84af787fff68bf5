# SPDX-License-Identifier: Apache-2.0
"""Text that is fit for a terminal, from any source."""


def escape(text: str) -> str:
    r"""Write characters that a terminal would act upon as ``\x1b``.

    :param text: from a database, a service or a user
    :returns: the same text with nothing in it that moves the cursor, changes
        a colour or hides the rest
    """
    if text.isprintable():
        return text
    # Not printable are control characters, those that change the direction of
    # what follows, surrogates, private and unassigned characters, and all
    # separators but the plain space.
    return ''.join(
        each if each.isprintable() else _escape(each) for each in text
    )


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f'\\x{number:02x}'
    return f'\\u{number:04x}' if number < 0x10000 else f'\\U{number:08x}'
