# SPDX-License-Identifier: Apache-2.0
"""Paths of the checks, and the environment in which they run."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = pathlib.Path(os.environ.get('NOVA_RT_LAB', '/var/lib/nova-rt-lab'))
LOGS = LAB / 'check'
#: Of the lab's services; the next lab begins new ones.
SERVICE_LOGS = LAB / 'log'
RUN = LAB / 'run'
CACHE = LAB / 'cache'
#: Records outlive ``make clean``.
GREEN = pathlib.Path(os.environ.get('NOVA_RT_GREEN', '/var/lib/nova-rt-green'))
#: Of the last green run of the kernel's tests; committed.
TESTED = ROOT / 'kernel' / 'tested.toml'

# Nothing is written to the checkout. Git serves root in a checkout of somebody
# else only when told so.
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(('PYTHON', 'OS_', 'VIRTUAL_ENV', 'MAKE'))
} | {
    'PATH': f'{pathlib.Path(sys.executable).parent}:/usr/local/sbin:'
    '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'LANG': 'C.UTF-8',
    'NOVA_RT_LAB': str(LAB),
    'PYTHONPYCACHEPREFIX': str(CACHE / 'pycache'),
    'PYTHONUNBUFFERED': '1',
    'MYPY_CACHE_DIR': str(CACHE / 'mypy'),
    'RUFF_CACHE_DIR': str(CACHE / 'ruff'),
    'PRE_COMMIT_HOME': str(CACHE / 'pre-commit'),
    'DOC_BUILD': str(RUN / 'doc'),
    'NOTES_BUILD': str(RUN / 'releasenotes'),
    'GIT_CONFIG_COUNT': '1',
    'GIT_CONFIG_KEY_0': 'safe.directory',
    'GIT_CONFIG_VALUE_0': str(ROOT),
}
