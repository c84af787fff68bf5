# SPDX-License-Identifier: Apache-2.0
"""The jobs of .zuul.yaml, as far as they can be judged without Zuul."""

import configparser
import re
import unittest

import yaml

from tools.gate.places import ROOT

CONTENT = yaml.safe_load((ROOT / '.zuul.yaml').read_text())
JOBS = {item['job']['name']: item['job'] for item in CONTENT if 'job' in item}
(PROJECT,) = (item['project'] for item in CONTENT if 'project' in item)


class JobsTest(unittest.TestCase):
    """Presence of all that jobs name."""

    def test_playbooks(self):
        for job in JOBS.values():
            for key in ('pre-run', 'run', 'post-run'):
                if key in job:
                    plays = yaml.safe_load((ROOT / job[key]).read_text())
                    self.assertTrue(all('hosts' in play for play in plays))

    def test_environments_of_tox(self):
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(ROOT / 'tox.ini')
        names = {
            section.removeprefix('testenv:').partition('{')[0]
            for section in tox
        }
        for name, job in JOBS.items():
            if 'tox' in name and 'abstract' not in job:
                self.assertIn(job['vars']['tox_envlist'], names)

    def test_settings_of_the_plugin(self):
        known = set(
            re.findall(
                r'(NOVA_RT_\w+)=',
                (ROOT / 'devstack/settings').read_text(),
            )
        )
        used = set(
            re.findall(r'NOVA_RT_\w+', (ROOT / '.zuul.yaml').read_text())
        )
        self.assertEqual(set(), used - known)

    def test_pipelines_run_our_jobs(self):
        for pipeline in ('check', 'gate'):
            for job in PROJECT[pipeline]['jobs']:
                name = job if isinstance(job, str) else next(iter(job))
                self.assertIn(name, JOBS)
                self.assertNotIn('abstract', JOBS[name])
