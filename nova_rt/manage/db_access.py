# SPDX-License-Identifier: Apache-2.0
"""The database of nova_rt, as the commands reach it."""

import argparse
from collections.abc import Iterator
import contextlib
import datetime
import re

from oslo_config import cfg

from nova_rt import exception
from nova_rt.cmd import options
from nova_rt.cmd.cli import base


def connect(conf: cfg.ConfigOpts) -> bool:
    """Take the options of the database; it is reached at first use.

    :returns: whether one is configured
    :raises CannotRun: if an option of it has a value that it may not have
    """
    if not conf.nova_rt_database.connection:
        return False
    from nova_rt.db import api

    try:
        options.check(conf, 'nova_rt_database')
    except options.Unusable as err:
        raise base.CannotRun(str(err)) from err
    with errors():
        api.configure(conf)
    return True


_CONNECTION = '[nova_rt_database] connection'


def _refuse_what_is_no_database(error: Exception) -> None:
    """Raise the error of a command if no database has been asked at all."""
    from oslo_db import exception as db_exception
    import sqlalchemy as sa

    if isinstance(error, db_exception.DBInvalidUnicodeParameter):
        raise base.CommandFailed(
            'no server has such a name: it cannot be written in UTF-8'
        ) from error
    if isinstance(error, sa.exc.NoSuchModuleError):
        # Its text has the name of the driver, not the URL.
        raise base.CannotRun(
            f'{_CONNECTION} names an unknown kind of database or driver '
            f'({error})'
        ) from error
    if isinstance(error, sa.exc.ArgumentError):
        raise base.CannotRun(
            f'{_CONNECTION} is no URL of a database, such as '
            'mysql+pymysql://USER:PASSWORD@HOST/nova_rt'
        ) from error


def require(conf: cfg.ConfigOpts) -> None:
    """As :func:`connect`, for a command that reads nothing else.

    :raises CannotRun: if none is configured
    """
    if not connect(conf):
        raise base.CannotRun(
            '[nova_rt_database] connection is not set: run this where '
            'nova-rt-conductor has its configuration'
        )


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Turn errors of the database into errors of a command.

    :returns: nothing, once
    :raises CannotRun: if the database does not answer
    :raises CommandFailed: if it knows no such server
    """
    try:
        yield
    except exception.NovaRTError as err:
        raise base.CommandFailed(str(err)) from err
    except base.CommandFailed:
        raise
    except ImportError as err:
        raise base.CannotRun(
            f'{_CONNECTION} needs a driver that is not installed ({err})'
        ) from err
    except Exception as err:
        _refuse_what_is_no_database(err)
        from nova_rt.db import api

        # Of oslo.db, SQLAlchemy or a driver.
        raise base.CannotRun(
            f'the database of nova_rt {api.describe(err)}'
        ) from err


def render_time(time: datetime.datetime) -> str:
    """Write a time, UTC, to the second.

    :param time: with a time zone
    :returns: as in ``2026-02-03T04:05:06Z``
    """
    utc = time.astimezone(datetime.UTC)
    return utc.strftime('%Y-%m-%dT%H:%M:%SZ')


def parse_count(text: str) -> int:
    """Read a number from 0.

    :returns: the number
    :raises ArgumentTypeError: if it is something else
    """
    if re.fullmatch('[0-9]{1,9}', text) is None:
        raise argparse.ArgumentTypeError(f'{text!r} is no number from 0')
    return int(text)
