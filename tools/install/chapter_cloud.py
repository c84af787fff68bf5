# SPDX-License-Identifier: Apache-2.0
"""Follows the blocks of the installation chapter that need a cloud.

They are followed on the lab. It is brought up if it is down, and is then taken
down again.
"""

import sys

from lab.console import say
from tools.install import blocks, chapter, node
from tools.install.commands import DOWN, RUN, lab

LOG = RUN / 'chapter-cloud.log'
_STATE = RUN / 'chapter-cloud.state'
#: Lines of the chapter -> the same with the lab's image and network.
ADAPTED = {
    'image=IMAGE': 'image=rt-busybox',
    'network=NETWORK': 'network=pub',
}


def command() -> None:
    """Follow the blocks.

    :raises LabError: if one of them cannot be followed
    """
    _STATE.unlink(missing_ok=True)
    was_down = lab('status', LOG, codes=(0, 1, DOWN)) == DOWN
    lab('up', LOG)
    host = node.Host((sys.executable, '-m', 'lab', 'exec'), LOG)
    follower = chapter.Follower(host, ADAPTED, str(_STATE))
    try:
        follower.follow(chapter.select(blocks.read(chapter.CHAPTER), 'cloud'))
        follower.finish()
    finally:
        _STATE.unlink(missing_ok=True)
        if was_down:
            lab('down', LOG)
    say(f'the lab: {follower.commands} commands of the chapter')
