# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the manual."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / 'ext'))

project = 'nova_rt'
copyright = '2026, nova_rt contributors'

extensions = [
    'cliff.sphinxext',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'client_commands',
    'extra_specs_table',
    'rest_calls',
]

root_doc = 'index'
html_theme = 'openstackdocs'
pygments_style = 'native'

openstackdocs_auto_name = False
# The project has no release of its own documentation yet.
openstackdocs_auto_version = False
openstackdocs_use_storyboard = False

autoprogram_cliff_app_dist_name = 'nova_rt'
# What cliff adds to every list and table, told once in the text.
autoprogram_cliff_ignored = [
    '--help',
    '--fit-width',
    '--max-width',
    '--noindent',
    '--prefix',
    '--print-empty',
    '--quote',
]

man_pages = [
    (f'cli/{name}', name, text, ['nova_rt contributors'], 1)
    for name, text in (
        ('nova-rt-api', 'reservations over HTTP'),
        ('nova-rt-compute', 'nova-compute with CPU reservations'),
        ('nova-rt-conductor', 'collects what computes report'),
        ('nova-rt-exporter', 'metrics of a host for Prometheus'),
        ('nova-rt-manage', 'ask about CPU reservations'),
        ('nova-rt-model', 'how large a reservation must be'),
        ('nova-rt-scheduler', 'nova-scheduler that explains refusals'),
        ('nova-rt-status', 'check a host and an upgrade'),
    )
]
