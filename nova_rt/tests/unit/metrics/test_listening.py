# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.metrics.listening."""

import pathlib

import ddt
import fixtures
from oslo_config import cfg
from oslotest import base

import nova_rt.conf
from nova_rt.metrics import listening, server

_GROUPS = {'nova_rt_exporter': '', 'nova_rt_conductor': 'metrics_'}


@ddt.ddt
class ListeningTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tokens = self.top / 'tokens'

    def read(self, group='nova_rt_exporter', **values):
        conf = cfg.ConfigOpts()
        nova_rt.conf.register_opts(conf)
        conf([], default_config_files=[])
        for name, value in values.items():
            conf.set_override(_GROUPS[group] + name, value, group)
        return listening.read(conf, group, 'x', _GROUPS[group])

    def refusal(self, **values):
        return str(self.assertRaises(OSError, self.read, **values))

    @ddt.data(*_GROUPS)
    def test_default(self, group):
        found = self.read(group, port=7)
        self.assertEqual(('127.0.0.1', 7), (found.address, found.port))
        self.assertEqual(server.Access(), found.access)

    def test_older_name_of_the_address(self):
        file = self.top / 'conf'
        file.write_text('[nova_rt_conductor]\nmetrics_host = 192.0.2.1\n')
        conf = cfg.ConfigOpts()
        nova_rt.conf.register_opts(conf)
        conf(['--config-file', str(file)])
        self.assertEqual(
            '192.0.2.1', conf.nova_rt_conductor.metrics_listen_address
        )

    @ddt.data('127.0.0.1', '::1', '127.8.8.8')
    def test_tokens(self, address):
        self.tokens.write_text(f'{"a" * 16}\n\n  {"-._~+/" * 4}==\r\n')
        found = self.read(listen_address=address, token_file=self.tokens)
        self.assertEqual(('a' * 16, '-._~+/' * 4 + '=='), found.access.tokens)

    @ddt.data('0.0.0.0', '192.0.2.1', '::')
    def test_no_tokens_in_the_clear(self, address):
        self.tokens.write_text('a' * 16)
        self.assertIn(
            f'token_file requires tls_cert_file, because listen_address = '
            f'{address} ',
            self.refusal(listen_address=address, token_file=self.tokens),
        )

    @ddt.data('', '\n \n', 'short', 'a' * 15, 'a b' * 9, '# ' + 'a' * 20,
              '\xe9' * 16)  # fmt: skip
    def test_no_tokens(self, text):
        """A text that may be a secret is not shown."""
        self.tokens.write_text(f'{"s" * 16}\n{text}' if text.strip() else text)
        found = self.refusal(token_file=self.tokens)
        self.assertIn(f'[nova_rt_exporter] token_file = {self.tokens}', found)
        self.assertNotIn('ssss', found)
        if text.strip():
            self.assertIn('line 2', found)
            self.assertNotIn(f'{text} ', found)

    def test_files_that_are_not_there(self):
        for group, prefix in _GROUPS.items():
            found = str(
                self.assertRaises(
                    OSError, self.read, group, token_file='/no/such'
                )
            )
            self.assertIn(
                f'[{group}] {prefix}token_file = /no/such: No such', found
            )

    @ddt.data('tls_key_file', 'tls_client_ca_file')
    def test_no_plain_text_if_tls_was_wanted(self, name):
        self.assertIn('require tls_cert_file', self.refusal(**{name: '/x'}))
