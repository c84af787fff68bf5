# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.cmd.flavors, on flavors in a real API database."""

import os
import pathlib
import shlex
import subprocess
import sys

import fixtures
from nova import context as nova_context
from nova import objects, test
from nova.db.api import models
from oslo_config import cfg
from oslo_config import fixture as config
from oslotest import base
import sqlalchemy

from nova_rt import conf as nova_rt_conf
from nova_rt.cmd import status

GOOD = {
    'rt:reservation': '1400/2000',
    'resources:CUSTOM_RT_BANDWIDTH': '1400000',
    'resources:VCPU': '0',
    'trait:CUSTOM_RT_GUARANTEE': 'required',
}


class FlavorsTest(test.TestCase):
    def setUp(self):
        super().setUp()
        self.context = nova_context.get_admin_context()
        self.conf = cfg.ConfigOpts()
        nova_rt_conf.register_opts(self.conf)
        self.conf_of_ours = self.useFixture(config.Config(self.conf)).config
        self.out = self.useFixture(fixtures.StringStream('stdout')).stream
        # The database fixture has configured it.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.db.api.api.context_manager.configure',
                lambda **options: None,
            )
        )

    def flavor(self, name, specs, **fields):
        objects.Flavor(
            self.context,
            flavorid=fields.pop('flavorid', name),
            name=name,
            vcpus=2,
            memory_mb=64,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            extra_specs=specs,
            **fields,
        ).create()

    def check(self):
        """The code, the details in the table, the lines below it."""
        checks = status.Checks(self.conf)
        result = checks._flavors()
        return result.code, result.details or '', checks._advice

    def test_good(self):
        self.flavor('plain', {'hw:cpu_policy': 'dedicated'})
        self.flavor('rt', GOOD)
        self.assertEqual((0, '', []), self.check())

    def test_bare(self):
        """Private and disabled ones as well; for a shell."""
        bare = {'rt:reservation': '1400/2000'}
        self.flavor('rt', bare, flavorid='r t', is_public=False)
        self.flavor('disabled', bare, disabled=True)
        code, details, lines = self.check()
        self.assertEqual(2, code)
        self.assertIn(': disabled, rt.', details)
        self.assertEqual(
            [
                line
                for name, word in (('disabled', 'disabled'), ('rt', "'r t'"))
                for line in (
                    f'# {name}',
                    f'openstack flavor set {word} '
                    '--property resources:CUSTOM_RT_BANDWIDTH=1400000 '
                    '--property resources:VCPU=0 '
                    '--property trait:CUSTOM_RT_GUARANTEE=required',
                )
            ],
            lines,
        )

    def test_wrong_ones_only(self):
        self.flavor(
            'rt',
            GOOD
            | {
                'rt:enforcement': 'limit',
                'resources:CUSTOM_RT_BANDWIDTH': '700000',
            },
        )
        self.assertEqual(
            [
                '# rt',
                'openstack flavor set rt '
                '--property resources:CUSTOM_RT_BANDWIDTH=1400000 '
                '--property trait:CUSTOM_RT_LIMIT=required',
                'openstack flavor unset rt '
                '--property trait:CUSTOM_RT_GUARANTEE',
            ],
            self.check()[2],
        )

    def test_what_it_says_mends_it(self):
        self.flavor(
            'rt', {'rt:reservation': '500/1000', 'resources:VCPU': '2'}
        )
        (_, command) = self.check()[2]
        words = shlex.split(command)
        flavor = objects.Flavor.get_by_flavor_id(self.context, words[3])
        flavor.extra_specs |= dict(
            word.split('=') for word in words if '=' in word
        )
        flavor.save()
        self.assertEqual(0, self.check()[0])

    def test_refused(self):
        self.flavor('no', {'rt:priority': '5'}, flavorid='7')
        self.flavor('short', GOOD | {'rt:reservation': '1400/2000'})
        self.conf_of_ours(group='nova_rt', min_period_us=5000)
        code, _, lines = self.check()
        self.assertEqual(2, code)
        self.assertEqual(2, len(lines))
        self.assertIn('no (7), refused: ', lines[0])
        self.assertIn('needs rt:reservation', lines[0])
        self.assertIn('2000 us', lines[1])

    def test_no_database_configured(self):
        self.flavor('rt', {'rt:reservation': '1400/2000'})
        self.flags(connection=None, group='api_database')
        code, details, lines = self.check()
        self.assertEqual(1, code)
        self.assertIn('not checked', details)
        self.assertIn('[api_database]', details)
        self.assertEqual([], lines)

    def test_database_that_does_not_answer(self):
        def fail(**options):
            raise ConnectionError('mysql://nova:secret@db')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.db.api.api.context_manager.configure', fail
            )
        )
        code, details, _ = self.check()
        self.assertEqual(1, code)
        self.assertIn('not checked', details)
        self.assertNotIn('secret', details)

    def test_printed_below_the_table(self):
        self.flavor('rt', {'rt:reservation': '1400/2000'})
        with fixtures.MonkeyPatch('sys.stdout', self.out):
            self.assertEqual(2, status.Checks(self.conf).check())
        self.out.seek(0)
        table, _, below = self.out.read().rpartition('+\n')
        self.assertIn('Real-time flavors', table)
        self.assertEqual(2, len(below.splitlines()))
        self.assertIn('openstack flavor set', below)


class ProgramTest(base.BaseTestCase):
    """The program itself, with nothing of Nova set up for it."""

    def test_reads_the_database_that_nova_conf_names(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        url = f'sqlite:///{directory}/api.sqlite'
        engine = sqlalchemy.create_engine(url)
        models.BASE.metadata.create_all(engine)
        flavors = models.Flavors.__table__
        with engine.begin() as connection:
            connection.execute(
                flavors.insert().values(
                    id=1, flavorid='rt.bare', name='rt.bare', vcpus=1,
                    memory_mb=64, swap=0, disabled=False, is_public=True,
                )
            )  # fmt: skip
            connection.execute(
                models.FlavorExtraSpecs.__table__.insert().values(
                    flavor_id=1, key='rt:reservation', value='500/1000'
                )
            )
        conf = directory / 'nova.conf'
        conf.write_text(f'[api_database]\nconnection = {url}\n')
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'nova_rt.cmd.status'),
                *('--config-file', str(conf), 'upgrade', 'check'),
            ],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )
        self.assertIn('openstack flavor set rt.bare', done.stdout)
        self.assertEqual(2, done.returncode, done.stderr)
