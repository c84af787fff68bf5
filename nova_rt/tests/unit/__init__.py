# SPDX-License-Identifier: Apache-2.0
"""Unit tests.

Those that draw examples draw the same ones each time: what chance finds must
not keep a change from landing that has nothing to do with it. The long form
sets NOVA_RT_RANDOM and draws others each time.
"""

import os

import hypothesis

# No test is about time, and nothing is written to the directory they run in.
hypothesis.settings.register_profile(
    'unit',
    derandomize=not os.environ.get('NOVA_RT_RANDOM'),
    deadline=None,
    database=None,
)
hypothesis.settings.load_profile('unit')
