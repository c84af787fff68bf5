# SPDX-License-Identifier: Apache-2.0
"""Paths of the lab's files: one work directory outside the checkout."""

import os
import pathlib
import sys

WORK = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
VENV = pathlib.Path(sys.prefix)

# Removed by ``down``.
VAR = WORK / 'var'
ETC = WORK / 'etc'
BIN = WORK / 'bin'
RUN = VAR / 'run'

# Kept by ``down``.
LOG = WORK / 'log'
IMAGES = WORK / 'images'
RESULTS = WORK / 'results'
LOCK = WORK / 'lab.lock'
HOST_BEFORE = WORK / 'host-before.json'

TEMPLATES = CHECKOUT / 'lab' / 'etc'
PROGRAMS = CHECKOUT / 'lab' / 'programs'
MYSQL_SOCKET = VAR / 'mysql.sock'
OVN_SOCKET = VAR / 'ovs' / 'ovn.sock'
# libvirt and os-vif look for the switch's database at its default place; /run
# is the lab's own there.
OVSDB_SOCKET = pathlib.Path('/run/openvswitch/db.sock')
OPENRC = ETC / 'openrc'
