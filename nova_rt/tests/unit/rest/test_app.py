# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_rt.rest.app, and of the OpenAPI document."""

import re

import fixtures
import jsonschema
from oslo_db import exception as db_exception

from nova_rt.cloud import nova_db
from nova_rt.db import api as db
from nova_rt.rest import operations, policies
from nova_rt.tests.unit.rest import base
from nova_rt.tests.unit.rest.test_operations import PATH


class AppTest(base.APITestCase):
    def test_without_a_token(self):
        for path in '/healthcheck', '/', '/v1', '/v1/openapi.json':
            self.assertEqual(200, self.client.get(path).status_code)
        response = self.assert_error(
            401, 'unauthorized', path='/v1/hosts', user=None
        )
        self.assertIn('keystone', response.headers['WWW-Authenticate'])
        for headers in (
            {'X-Identity-Status': 'Confirmed', 'X-Roles': 'admin'},
            {'X-Auth-Token': 'unknown'},
        ):
            response = self.client.get('/v1/hosts', headers=headers)
            self.assertEqual(401, response.status_code)

    def test_versions(self):
        (version,) = self.client.get('/').json['versions']
        self.assertEqual('1.0', version['max_version'])
        for wanted in 'rt 1.0', 'rt latest', 'compute 2.99', None:
            headers = {'X-Auth-Token': base.ADMIN}
            if wanted is not None:
                headers['OpenStack-API-Version'] = wanted
            response = self.client.get('/v1/hosts', headers=headers)
            self.assertEqual(200, response.status_code)
            self.assertEqual(
                'rt 1.0', response.headers['OpenStack-API-Version']
            )
        self.assert_error(
            406, 'microversion', path='/v1/hosts', Accept='application/json',
            OpenStack_API_Version='rt 1.1',
        )  # fmt: skip
        self.assert_error(
            400, 'microversion', path='/v1/hosts', Accept='application/json',
            OpenStack_API_Version='rt one',
        )  # fmt: skip

    def test_no_such_thing(self):
        self.assert_error(404, 'not_found', path='/v1/nothing')
        self.assert_error(404, 'not_found', path='/v1/servers/one/reservation')
        response = self.assert_error(
            405, 'method_not_allowed', path='/v1/hosts', method='DELETE'
        )
        self.assertIn('GET', response.allow)

    def test_sources_that_do_not_answer(self):
        for error in (
            nova_db.Unreadable('Placement does not answer (X)'),
            db_exception.DBConnectionError(Exception('refused')),
            *(kind() for kind in db.ERRORS),
        ):
            self.sources.error = error
            self.assert_error(503, 'unavailable', path=PATH)

    def test_fault_of_ours(self):
        self.sources.error = ZeroDivisionError('secret')
        response = self.assert_error(500, 'internal_error', path=PATH)
        self.assertNotIn('secret', response.text)

    def test_fault_of_the_middleware(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'keystonemiddleware.auth_token.AuthProtocol.process_request',
                lambda *args: 1 / 0,
            )
        )
        response = self.client.get('/v1/hosts')
        self.assertEqual(500, response.status_code)
        self.assertNotIn('division', response.text)


class DocumentTest(base.APITestCase):
    def setUp(self):
        super().setUp()
        self.document = self.read('/v1/openapi.json')

    def test_routes(self):
        routes = {
            (re.sub('<(?:[a-z]+:)?([a-z]+)>', r'{\1}', rule.rule), method)
            for rule in self.app.url_map.iter_rules()
            for method in rule.methods - {'HEAD', 'OPTIONS'}
            if not rule.endpoint.startswith('versions')
        }
        self.assertEqual(
            routes,
            {
                (path, method.upper())
                for path, methods in self.document['paths'].items()
                for method in methods
            },
        )

    def test_schemas(self):
        def walk(value):
            if isinstance(value, dict):
                if 'schema' in value:
                    yield value['schema']
                for each in value.values():
                    yield from walk(each)
            elif isinstance(value, list):
                for each in value:
                    yield from walk(each)

        schemas = [*walk(self.document['paths'])]
        schemas += self.document['components']['schemas'].values()
        for schema in schemas:
            jsonschema.Draft202012Validator.check_schema(schema)
            for name in re.findall(
                "'#/components/schemas/(.*?)'", str(schema)
            ):
                self.assertIn(name, self.document['components']['schemas'])
        self.assertLess(30, len(schemas))

    def test_parameters(self):
        for path, methods in self.document['paths'].items():
            for operation in methods.values():
                self.assertEqual(
                    {*re.findall('{(.*?)}', path)},
                    {
                        each['name']
                        for each in operation['parameters']
                        if each['in'] == 'path'
                    },
                )
                self.assertTrue(operation['summary'].endswith('.'))

    def test_policies_are_of_calls(self):
        """Each rule names a call of the document."""
        for rule in policies.list_rules():
            for each in rule.operations:
                path = each['path'].partition('?')[0]
                method = each['method'].lower()
                self.assertIn(method, self.document['paths'][path])

    def test_errors_that_occur(self):
        for each in operations.OPERATIONS:
            self.assertEqual(not each.public, 401 in each.errors)
            self.assertEqual(each.body is not None, 409 in each.errors)
