# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-api``: the API of reservations, served for development.

In production, a WSGI server runs ``nova_rt.rest.wsgi``.
"""

# First: Nova has native threads in this process.
from nova import monkey_patch  # isort: skip

monkey_patch.patch(backend='threading')

import sys  # noqa: E402

from oslo_config import cfg  # noqa: E402
from werkzeug import serving  # noqa: E402

from nova_rt import exception  # noqa: E402
from nova_rt.rest import service  # noqa: E402


def main() -> int:
    """Serve until interrupted.

    :returns: the exit code, 1 if it cannot start
    """
    conf = cfg.CONF
    try:
        application = service.make(conf, sys.argv[1:])
        address, port = conf.nova_rt_api.listen_address, conf.nova_rt_api.port
    except (cfg.Error, exception.NovaRTError) as err:
        print(f'{service.PROGRAM} cannot start: {err}', file=sys.stderr)
        return 1
    serving.run_simple(address, port, application, threaded=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
