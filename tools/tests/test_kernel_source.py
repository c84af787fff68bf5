# SPDX-License-Identifier: Apache-2.0
"""Fetching the kernel's source, from an archive in a directory."""

import hashlib
import lzma
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from lab import paths

KERNEL = paths.CHECKOUT / 'kernel'
PATCH = """--- a/kernel/sched.c
+++ b/kernel/sched.c
@@ -1,1 +1,1 @@
-int throttled;
+int served;
"""
PROGRAMS = ('apt-get', 'apt-cache', 'dpkg-deb', 'patch')
FITS, OTHER = 'int throttled;\n', 'int changed;\n'
UNAVAILABLE = os.EX_UNAVAILABLE


@unittest.skipUnless(all(map(shutil.which, PROGRAMS)), 'not a Debian machine')
class FetchTest(unittest.TestCase):
    """Of a list of versions, the first that the archive has."""

    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.kernel = self.top / 'kernel'
        shutil.copytree(KERNEL / 'scripts', self.kernel / 'scripts')
        (self.kernel / 'base').mkdir()
        (self.kernel / 'patches').mkdir()
        (self.kernel / 'patches' / '0001-x.patch').write_text(PATCH)
        self.work = self.top / 'work'
        self.archive = self.top / 'archive'
        self.packages = {'trixie-backports': [], 'forky': [], 'sid': []}

    def _version(self, number, version, suite='sid', text=FITS):
        """Add a version to base/; return what puts it into the archive."""
        name = f'linux-source-{version[:3]}'
        tree = self.top / 'tree' / version / name / 'kernel'
        tree.mkdir(parents=True)
        (tree / 'sched.c').write_text(text)
        root = self.top / 'package' / version
        source = root / 'usr' / 'src' / f'{name}.tar.xz'
        source.parent.mkdir(parents=True)
        with (
            lzma.open(source, 'w') as file,
            tarfile.open(fileobj=file, mode='w') as tar,
        ):
            tar.add(tree.parent, name)
        (root / 'DEBIAN').mkdir()
        control = (
            f'Package: {name}\nVersion: {version}\nArchitecture: all\n'
            'Maintainer: nobody <nobody@example.org>\nDescription: a test\n'
        )
        (root / 'DEBIAN' / 'control').write_text(control)
        deb = self.archive / 'pool' / f'{name}_{version}_all.deb'
        deb.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ['dpkg-deb', '--root-owner-group', '--build', root, deb],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        sums = [
            hashlib.sha256(file.read_bytes()).hexdigest()
            for file in (deb, source)
        ]
        if number:
            (self.kernel / 'base' / f'{number}-{version}').write_text(
                f'package={name}\nversion={version}\nsuite={suite}\n'
                f'deb_sha256={sums[0]}\ntarball=usr/src/{name}.tar.xz\n'
                f'tarball_sha256={sums[1]}\n'
            )
        entry = (
            f'{control}Filename: pool/{deb.name}\n'
            f'Size: {deb.stat().st_size}\nSHA256: {sums[0]}\n'
        )
        return lambda: self.packages[suite].append(entry)

    def _fetch(self, **environment):
        for suite, entries in self.packages.items():
            lists = self.archive / 'dists' / suite
            (lists / 'main' / 'binary-amd64').mkdir(
                parents=True, exist_ok=True
            )
            packages = '\n'.join(entries)
            file = lists / 'main' / 'binary-amd64' / 'Packages'
            file.write_text(packages)
            (lists / 'Release').write_text(
                f'Suite: {suite}\nCodename: {suite}\nComponents: main\n'
                'Architectures: amd64\nDate: Fri, 02 Jan 2026 00:00:00 UTC\n'
                f'SHA256:\n {hashlib.sha256(packages.encode()).hexdigest()} '
                f'{len(packages)} main/binary-amd64/Packages\n'
            )
        return subprocess.run(
            [self.kernel / 'scripts' / 'fetch.sh'],
            env={
                'PATH': os.defpath,
                'NOVA_RT_KERNEL': str(self.work),
                'DEBIAN_MIRROR': f'file:{self.archive}',
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def _taken(self, answer):
        """The version whose tree was printed."""
        self.assertEqual(0, answer.returncode, answer.stderr)
        tree = pathlib.Path(answer.stdout.strip())
        self.assertTrue((tree / 'kernel' / 'sched.c').exists())
        lines = (tree / '.base').read_text().splitlines()
        return next(
            line.partition('=')[2] for line in lines if 'version=' in line
        )

    def test_first(self):
        for number, version in enumerate(('7.2.1-1', '7.2.2-1'), 1):
            self._version(number, version)()
        self.assertEqual('7.2.1-1', self._taken(self._fetch()))

    def test_second_if_the_first_has_left(self):
        self._version(1, '7.2.1-1', 'trixie-backports')
        self._version(2, '7.2.2-1')()
        self.assertEqual('7.2.2-1', self._taken(self._fetch()))

    def test_choice_stays_until_the_list_changes(self):
        first = self._version(1, '7.2.1-1', 'trixie-backports')
        self._version(2, '7.2.2-1')()
        self.assertEqual('7.2.2-1', self._taken(self._fetch()))
        first()
        self.assertEqual('7.2.2-1', self._taken(self._fetch()))
        self._version(3, '7.2.3-1')
        self.assertEqual('7.2.1-1', self._taken(self._fetch()))

    def test_choice_is_not_of_one_checkout(self):
        """Another one takes the same, also when the first is gone."""
        self._version(1, '7.2.1-1', 'trixie-backports')
        self._version(2, '7.2.2-1')()
        self.assertEqual('7.2.2-1', self._taken(self._fetch()))
        self.kernel = self.kernel.rename(self.top / 'another')
        self.assertEqual('7.2.2-1', self._taken(self._fetch()))

    def test_choice_that_was_removed(self):
        self._version(1, '7.2.1-1')()
        tree = self._fetch().stdout.strip()
        shutil.rmtree(tree)
        self.assertEqual('7.2.1-1', self._taken(self._fetch()))

    def test_what_fits_if_all_have_left(self):
        self._version(1, '7.2.1-1')
        self._version(None, '7.3.1-1', 'trixie-backports', OTHER)()
        self._version(None, '7.2.9-1')()
        answer = self._fetch()
        self.assertEqual('7.2.9-1', self._taken(answer))
        self.assertIn('the series does not apply', answer.stderr)
        for word in ('deb_sha256=', 'tarball_sha256=', 'version=7.2.9-1'):
            self.assertIn(word, answer.stderr)

    def test_none(self):
        self._version(1, '7.2.1-1')
        self._version(None, '7.3.1-1', 'sid', OTHER)()
        answer = self._fetch()
        self.assertEqual((UNAVAILABLE, ''), (answer.returncode, answer.stdout))

    def test_no_archive(self):
        self._version(1, '7.2.1-1')
        answer = self._fetch(DEBIAN_MIRROR=f'file:{self.top}/nowhere')
        self.assertEqual((UNAVAILABLE, ''), (answer.returncode, answer.stdout))

    def test_wrong_hash_is_no_reason_to_try_another(self):
        self._version(1, '7.2.1-1')()
        self._version(2, '7.2.2-1')()
        file = self.kernel / 'base' / '1-7.2.1-1'
        text = file.read_text()
        for name in ('deb_sha256', 'tarball_sha256'):
            with self.subTest(name):
                lines = [
                    f'{name}={"0" * 64}' if line.startswith(name) else line
                    for line in text.splitlines()
                ]
                file.write_text('\n'.join([*lines, '']))
                answer = self._fetch()
                self.assertEqual(1, answer.returncode)
                self.assertIn('does not have the hash', answer.stderr)

    def test_tarball_of_ones_own(self):
        self._version(1, '7.2.1-1')
        self._version(2, '7.2.2-1')
        tarball = self.top / 'package' / '7.2.2-1' / 'usr' / 'src'
        tarball /= 'linux-source-7.2.tar.xz'
        answer = self._fetch(KERNEL_TARBALL=str(tarball))
        self.assertEqual('7.2.2-1', self._taken(answer))
        other = self.top / 'other'
        other.write_text('x')
        answer = self._fetch(KERNEL_TARBALL=str(other))
        self.assertEqual(1, answer.returncode)
        self.assertIn(hashlib.sha256(b'x').hexdigest(), answer.stderr)


class BaseTest(unittest.TestCase):
    """The list itself."""

    def test_each_has_all(self):
        files = sorted((KERNEL / 'base').iterdir())
        self.assertLess(1, len(files))
        for file in files:
            with self.subTest(file.name):
                names = [
                    line.partition('=')[0]
                    for line in file.read_text().splitlines()
                    if not line.startswith('#')
                ]
                self.assertLessEqual(
                    {
                        'package',
                        'version',
                        'suite',
                        'deb_sha256',
                        'tarball',
                        'tarball_sha256',
                    },
                    set(names),
                )
