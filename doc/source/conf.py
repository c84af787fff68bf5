# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the manual."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / 'ext'))

project = 'nova_rt'
copyright = '2026, nova_rt contributors'

extensions = [
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'extra_specs_table',
]

root_doc = 'index'
html_theme = 'openstackdocs'
pygments_style = 'native'

openstackdocs_auto_name = False
# The project has no release of its own documentation yet.
openstackdocs_auto_version = False
openstackdocs_use_storyboard = False
