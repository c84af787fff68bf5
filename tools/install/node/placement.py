# SPDX-License-Identifier: Apache-2.0
"""Placement for a node without a cloud: it says its versions, and no more.

nova-compute does not start without one.
"""

import http.server
import json

_VERSION = {
    'id': 'v1.0',
    'status': 'CURRENT',
    'min_version': '1.0',
    'max_version': '1.39',
    'links': [{'rel': 'self', 'href': ''}],
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    def _answer(self) -> None:
        body, status = {'versions': [_VERSION]}, 200
        if self.path != '/':
            body, status = {'errors': []}, 503
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = _answer


http.server.ThreadingHTTPServer(('', 8778), Handler).serve_forever()
