# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the release notes."""

project = 'nova_rt release notes'
copyright = '2026, nova_rt contributors'

extensions = ['openstackdocstheme', 'reno.sphinxext']

root_doc = 'index'
html_theme = 'openstackdocs'
pygments_style = 'native'

openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_use_storyboard = False
