# SPDX-License-Identifier: Apache-2.0
"""Answers of the plug-in to Tempest."""

import pathlib
from typing import Any

from oslo_config import cfg
from tempest.test_discover import plugins

from nova_rt_tempest_plugin import config


class NovaRTTempestPlugin(plugins.TempestPlugin):
    """The place of the tests, and the options that they have."""

    def load_tests(self) -> tuple[str, str]:
        """Return the directory of the tests and that of the package."""
        package = pathlib.Path(__file__).resolve().parent
        return str(package / 'tests'), str(package.parent)

    def register_opts(self, conf: cfg.ConfigOpts) -> None:
        """Add the options to Tempest's."""
        conf.register_opt(config.SERVICE_OPTION, group='service_available')
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[Any]]]:
        """Return the options by group, for the sample configuration."""
        return config.list_opts()
