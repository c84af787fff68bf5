# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: routes, errors, tokens and microversions."""

from collections.abc import Callable
import json
from typing import Any

import flask
from keystonemiddleware import auth_token
from microversion_parse import middleware as microversion
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging
from oslo_middleware import (
    catch_errors,
    healthcheck,
    http_proxy_to_wsgi,
    request_id,
)
from oslo_policy import policy
from werkzeug import exceptions as http
from werkzeug.middleware import dispatcher

from nova_rt import exception
from nova_rt.cloud import nova_db
from nova_rt.db import api as db
from nova_rt.rest import operations, policies, schemas
from nova_rt.rest.operations import OPERATIONS, SERVICE, VERSIONS, Operation
from nova_rt.rest.sources import OverLimit, Sources

LOG = logging.getLogger(__name__)

#: Bytes of a body.
_MAX_BODY = 65536

#: Errors of ours -> status and code; the first that fits.
_STATUSES: tuple[tuple[Any, int, str], ...] = (
    (exception.ChangeRefused, 403, 'out_of_bounds'),
    (exception.InvalidRequest, 400, 'invalid_request'),
    (exception.NotFound, 404, 'not_found'),
    (exception.BeingMoved, 409, 'server_busy'),
    (exception.GenerationConflict, 409, 'generation_conflict'),
    (operations.Conflict, 409, 'server_busy'),
    (operations.Forbidden, 403, 'forbidden'),
    (OverLimit, 403, 'over_limit'),
    (nova_db.Unreadable, 503, 'unavailable'),
)


def _classify(err: Exception) -> tuple[int, str, str]:
    """Find status, code and detail of an error."""
    for kind, status, code in _STATUSES:
        if isinstance(err, kind):
            return status, code, str(err)
    if isinstance(err, db.ERRORS):
        return 503, 'unavailable', 'the database of nova_rt does not answer'
    if isinstance(err, http.HTTPException):
        name = err.name.lower().replace(' ', '_')
        return err.code or 500, name, err.description or ''
    return 500, 'internal_error', 'the service has failed; see its log'


def _make_error(
    status: int, code: str, detail: str, request: str
) -> dict[str, Any]:
    """Make the body of an error, in the format of the OpenStack API SIG."""
    title = http.default_exceptions.get(status, http.InternalServerError)
    return {
        'errors': [
            {
                'request_id': request,
                'code': f'{SERVICE}.{code}',
                'status': status,
                'title': title().name,
                'detail': detail,
                'links': [],
            }
        ]
    }


def _handle(err: Exception) -> flask.Response:
    status, code, detail = _classify(err)
    if status == 500:
        LOG.error('Cannot answer %s', flask.request.path, exc_info=err)
    elif status == 503:
        # The driver's words are not for users.
        text = detail
        if isinstance(err, db.ERRORS):
            text = f'the database of nova_rt {db.describe(err)}'
        LOG.error('Cannot answer %s: %s', flask.request.path, text)
    request = flask.request.environ.get(request_id.ENV_REQUEST_ID, '')
    answer = flask.jsonify(_make_error(status, code, detail, request))
    answer.status_code = status
    if isinstance(err, http.MethodNotAllowed):
        answer.allow.update(err.valid_methods or ())
    return answer


def _format_version_error(
    *, body: str, status: str, title: str, environ: dict[str, Any]
) -> dict[str, Any]:
    return _make_error(
        int(status.split()[0]),
        'microversion',
        body,
        environ.get(request_id.ENV_REQUEST_ID, ''),
    )


def _show_versions() -> flask.Response:
    return flask.jsonify(
        {
            'versions': [
                {
                    'id': 'v1',
                    'status': 'CURRENT',
                    'min_version': VERSIONS[0],
                    'max_version': VERSIONS[-1],
                    'links': [
                        {'rel': 'self', 'href': f'{flask.request.url_root}v1'}
                    ],
                }
            ]
        }
    )


def make_app(
    conf: cfg.ConfigOpts, sources: Sources, enforcer: policy.Enforcer
) -> flask.Flask:
    """Make the application, without its middleware.

    :param conf: the configuration
    :param sources: of the answers
    :param enforcer: of the policy
    :returns: the application
    """
    app = flask.Flask(__name__, static_folder=None)
    app.config['MAX_CONTENT_LENGTH'] = _MAX_BODY
    app.register_error_handler(Exception, _handle)
    for path in ('/', '/v1', '/v1/'):
        app.add_url_rule(path, f'versions {path}', _show_versions)

    def serve(operation: Operation) -> Callable[..., flask.Response]:
        def answer(**names: Any) -> flask.Response:
            request = flask.request
            if not operation.public and (
                request.headers.get('X-Identity-Status') != 'Confirmed'
            ):
                raise http.Unauthorized('a valid token is required')
            call = operations.Call(
                conf,
                sources,
                enforcer,
                oslo_context.RequestContext.from_environ(request.environ),
                schemas.parse_query(request.args.to_dict(), operation.query),
                _read_body(operation),
                request.headers.get('If-Match'),
            )
            body, generation = operation.function(
                call, **{name: str(names[name]) for name in names}
            )
            found = flask.jsonify(body)
            found.status_code = operation.status
            if generation is not None:
                found.set_etag(str(generation))
            return found

        return answer

    for each in OPERATIONS:
        app.add_url_rule(
            each.path, each.name, serve(each), methods=[each.method]
        )
    return app


def _read_body(operation: Operation) -> Any:
    """Read and validate the body of a request.

    :raises InvalidRequest: if it does not match the schema
    """
    if operation.body is None:
        return None
    try:
        # From bytes of any type: clients forget to name JSON.
        body = json.loads(flask.request.get_data())
    except (ValueError, RecursionError) as err:
        raise exception.InvalidRequest(f'the body is no JSON: {err}') from err
    schemas.validate(body, operation.body, 'body')
    return body


def add_middleware(app: flask.Flask, conf: cfg.ConfigOpts) -> Any:
    """Put the middleware of OpenStack around the application.

    :returns: a WSGI application
    """
    # Delayed: the application says which calls need no token.
    inner = auth_token.AuthProtocol(
        app, {'oslo_config_config': conf, 'delay_auth_decision': True}
    )
    inner = microversion.MicroversionMiddleware(
        inner, SERVICE, list(VERSIONS), _format_version_error
    )
    # Of the middleware, such as one without a way to Keystone.
    inner = catch_errors.CatchErrors(inner, conf)
    inner = request_id.RequestId(inner, conf)
    inner = http_proxy_to_wsgi.HTTPProxyToWSGI(inner, conf)
    return dispatcher.DispatcherMiddleware(
        inner, {'/healthcheck': healthcheck.Healthcheck(None, conf)}
    )


def make(conf: cfg.ConfigOpts) -> Any:
    """Make the service.

    :param conf: the global configuration, parsed
    :returns: a WSGI application
    """
    db.configure(conf)
    app = make_app(conf, Sources(conf), policies.make_enforcer(conf))
    return add_middleware(app, conf)
