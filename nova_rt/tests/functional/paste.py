# SPDX-License-Identifier: Apache-2.0
"""Nova's api-paste.ini with our filter in it, as an operator edits it."""

import functools
import importlib.metadata
import pathlib

import fixtures

_SECTION = """
[filter:rt_hints]
paste.filter_factory = nova_rt.api.middleware:RequestValidator.factory
"""


@functools.cache
def _stock() -> pathlib.Path:
    """Find the api-paste.ini of the installation of Nova.

    Nova's test fixtures look for it beside the package, where it is only in
    a source tree.
    """
    for path in importlib.metadata.files('nova') or []:
        if path.name == 'api-paste.ini':
            return pathlib.Path(path.locate()).resolve()
    raise LookupError('this installation of Nova has no api-paste.ini')


class APIPaste(fixtures.Fixture):
    """Writes the file.

    :ivar path: for ``[wsgi] api_paste_config``
    """

    def _setUp(self) -> None:
        pipeline = 'keystonecontext osapi_compute_app_v21'
        text = _stock().read_text()
        assert pipeline in text
        text = text.replace(
            pipeline, 'keystonecontext rt_hints osapi_compute_app_v21'
        )
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = str(pathlib.Path(directory, 'api-paste.ini'))
        pathlib.Path(self.path).write_text(text + _SECTION)
