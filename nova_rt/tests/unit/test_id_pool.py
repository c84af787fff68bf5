# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.id_pool."""

from oslo_config import cfg
from oslotest import base

from nova_rt import conf, exception
from nova_rt.id_pool import SIZE, IDPool


class ParseTest(base.BaseTestCase):
    def test_pool(self):
        pool = IDPool.parse('131072:196608')
        self.assertEqual(IDPool(131072, 196608), pool)
        self.assertEqual([131072, 196608, 262144], list(pool.ranges))
        self.assertEqual('131072:196608', str(pool))

    def test_default(self):
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([], default_config_files=[])
        pool = IDPool.parse(options.nova_rt.id_pool)
        self.assertEqual(2245, len(pool.ranges))
        # Clear of: SSSD's and FreeIPA's, systemd's container images, signed
        # numbers.
        self.assertGreater(pool.first, 2000200000)
        self.assertEqual(2147352576, pool.first + pool.count)

    def test_largest(self):
        """The largest 32-bit number is no ID: the kernel refuses it."""
        first = (1 << 32) - 2 * SIZE
        self.assertEqual(first, IDPool.parse(f'{first}:{SIZE}').first)
        for text in (f'{first}:{2 * SIZE}', f'{first + SIZE}:{SIZE}'):
            self.assert_refused(text, 'none above 4294967294')

    def assert_refused(self, text, reason):
        refusal = self.assertRaises(
            exception.HostNotPrepared, IDPool.parse, text
        )
        self.assertIn(f'[nova_rt] id_pool = {text}: ', str(refusal))
        self.assertIn(reason, str(refusal))

    def test_no_pool(self):
        for text in (
            '', '65536', ':', '65536:', '65536:65536:1', '0:65536:65536',
            '-65536:65536', '0x10000:65536', '65536:65536\n', ' 65536:65536',
            '\u0666:65536', '65536:1e6', '99999999999:65536', 'a:b',
        ):  # fmt: skip
            with self.subTest(text):
                self.assert_refused(text, '<first ID>:<number of IDs>')

    def test_root_and_the_accounts_of_the_host(self):
        self.assert_refused('0:65536', 'example 65536')
        self.assert_refused('00000:131072', 'example 65536')

    def test_first_is_not_aligned(self):
        self.assert_refused('100000:65536', 'for example 131072')
        self.assert_refused('1000000000:655360000', 'for example 1000013824')
        for text in ('131072:65536', '1000013824:655360000'):
            IDPool.parse(text)

    def test_no_whole_number_of_ranges(self):
        self.assert_refused('65536:0', 'for example 65536')
        self.assert_refused('65536:65535', 'for example 65536')
        self.assert_refused('65536:200000', 'for example 196608')


class OverlappedTest(base.BaseTestCase):
    POOL = IDPool(10 * SIZE, 3 * SIZE)

    def check(self, numbers, first, count):
        self.assertEqual(
            [(10 + each) * SIZE for each in numbers],
            list(self.POOL.overlapped(first, count)),
        )

    def test_ranges(self):
        self.check([1], 11 * SIZE, SIZE)
        self.check([0, 1], 10 * SIZE + 1, SIZE)
        self.check([0], 10 * SIZE + 1, SIZE - 1)
        self.check([1], 12 * SIZE - 1, 1)

    def test_everything(self):
        self.check([0, 1, 2], 0, (1 << 32) - 1)

    def test_beside(self):
        self.check([], 0, 10 * SIZE)
        self.check([0], 0, 10 * SIZE + 1)
        self.check([], 13 * SIZE, 5)
        self.check([2], 13 * SIZE - 1, 5)
        self.check([], 1 << 40, 1 << 40)

    def test_none(self):
        self.check([], 11 * SIZE, 0)
        self.check([], 11 * SIZE, -5)
