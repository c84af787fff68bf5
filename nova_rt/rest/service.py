# SPDX-License-Identifier: Apache-2.0
"""Makes the service from the configuration of a process."""

from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_rt import conf as nova_rt_conf
from nova_rt import exception
from nova_rt.conf import nova_api
from nova_rt.rest import app

PROGRAM = 'nova-rt-api'


def make(
    conf: cfg.ConfigOpts, args: list[str], files: list[str] | None = None
) -> Any:
    """Read the configuration, and make the service.

    :param conf: the global configuration: Nova knows no other
    :param args: of the command
    :param files: of the configuration; None for those of Nova's directories
    :returns: a WSGI application
    :raises cfg.Error: if the configuration cannot be read
    :raises NovaRTError: if no database is configured
    """
    logging.register_options(conf)
    nova_rt_conf.register_opts(conf)
    # Here, because requests are served by several threads.
    nova_api.register_opts(conf)
    conf(args, project='nova', prog=PROGRAM, default_config_files=files)
    logging.setup(conf, PROGRAM)
    if not conf.nova_rt_database.connection:
        raise exception.NovaRTError('[nova_rt_database] connection is not set')
    return app.make(conf)
