# SPDX-License-Identifier: Apache-2.0
"""For pbr: the files of an sdist are those of git.

Everything else is in pyproject.toml. Without this file the sdist would have
the Python modules only, and no requirements.txt.
"""

import setuptools

setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True)
