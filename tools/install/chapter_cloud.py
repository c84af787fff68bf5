# SPDX-License-Identifier: Apache-2.0
"""Follows the blocks of the installation chapter that need a cloud.

They are followed on the lab. It is brought up if it is down, and is then taken
down again.
"""

import sys

from tools.install import blocks, chapter, shell
from tools.install.commands import RUN, Failed, run, say

LOG = RUN / 'chapter-cloud.log'
_STATE = RUN / 'chapter-cloud.state'
_LAB = [sys.executable, '-m', 'lab']
#: ``lab status``: it is down.
_DOWN = 3
#: Lines of the chapter -> the same with the lab's image and network.
ADAPTED = {
    'image=IMAGE': 'image=rt-busybox',
    'network=NETWORK': 'network=pub',
}


def command() -> None:
    """Follow the blocks.

    :raises Failed: if one of them cannot be followed
    """
    RUN.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    _STATE.unlink(missing_ok=True)
    was_down = run([*_LAB, 'status'], LOG, codes=(0, 1, _DOWN)) == _DOWN
    run([*_LAB, 'up'], LOG)
    host = shell.Shell(*_LAB, 'exec')
    follower = chapter.Follower(host, LOG, ADAPTED, str(_STATE))
    try:
        follower.follow(chapter.select(blocks.read(chapter.CHAPTER), 'cloud'))
        follower.finish()
    except blocks.Wrong as error:
        raise Failed(
            f'the chapter cannot be followed: {error}', LOG
        ) from error
    finally:
        _STATE.unlink(missing_ok=True)
        if was_down:
            run([*_LAB, 'down'], LOG)
    say(f'the lab: {follower.commands} commands of the chapter')
