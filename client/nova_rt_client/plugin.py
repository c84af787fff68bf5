# SPDX-License-Identifier: Apache-2.0
"""The plug-in of the OpenStack client."""

import argparse
from typing import Any

from osc_lib import utils

from nova_rt_client import api

DEFAULT_API_VERSION = '1'
API_VERSION_OPTION = 'os_rt_api_version'
API_NAME = 'rt'
API_VERSIONS = {'1': 'nova_rt_client.api.Client'}


def make_client(instance: Any) -> api.Client:
    """Make the client of nova-rt-api; the OpenStack client calls it.

    :param instance: its osc_lib.clientmanager.ClientManager
    :returns: the client
    """
    return api.Client(
        instance.session,
        service_type=API_NAME,
        interface=instance.interface,
        region_name=instance.region_name,
    )


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Add the option of the version of the API.

    :returns: the parser
    """
    parser.add_argument(
        '--os-rt-api-version',
        metavar='<rt-api-version>',
        choices=sorted(API_VERSIONS),
        default=utils.env('OS_RT_API_VERSION', default=DEFAULT_API_VERSION),
        help='API version of nova_rt, default: '
        f'{DEFAULT_API_VERSION} (Env: OS_RT_API_VERSION)',
    )
    return parser
