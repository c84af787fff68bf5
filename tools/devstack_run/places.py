# SPDX-License-Identifier: Apache-2.0
"""Paths of the files of a run of DevStack, and names of things."""

from lab import paths

CHECKOUT = paths.CHECKOUT
CONTAINER_SH = CHECKOUT / 'tools' / 'container.sh'
LOCAL_CONF = CHECKOUT / 'tools' / 'devstack_run' / 'local.conf'

WORK = paths.WORK / 'devstack'
#: The container's tree.
ROOT = WORK / 'root'
LOG = WORK / 'log'
#: File with the state of the container before the first stack.sh.
BEFORE = WORK / 'before.json'

NAME = 'devstack'
USER = 'stack'
SUITE = 'bookworm'

# In the container.
GIT = '/srv/git'
DEVSTACK = '/opt/stack/devstack'
BRANCH = 'checkout'
