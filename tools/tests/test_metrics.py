# SPDX-License-Identifier: Apache-2.0
"""Alerts and dashboards, on Prometheus itself."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from lab import paths
from nova_rt.cmd import exporter
from nova_rt.metrics import server
from nova_rt.tests.fixtures import exporter as exporter_fixture
from nova_rt.tests.fixtures import prometheus

ETC = paths.CHECKOUT / 'etc' / 'nova_rt'
RULES = ETC / 'prometheus' / 'rules.yaml'
DASHBOARDS = {
    path.stem: json.loads(path.read_text())
    for path in (ETC / 'grafana').glob('*.json')
}


def ask(url, query, start, end, step=15):
    """Ask Prometheus for a query's values over a time: all series."""
    words = urllib.parse.urlencode(
        {'query': query, 'start': start, 'end': end, 'step': step}
    )
    with urllib.request.urlopen(
        f'{url}/api/v1/query_range?{words}', timeout=30
    ) as answer:
        return json.load(answer)['data']['result']


def _rules():
    groups = yaml.safe_load(RULES.read_text())['groups']
    return [rule for group in groups for rule in group['rules']]


@unittest.skipUnless(prometheus.find(), 'no prometheus')
class RulesTest(unittest.TestCase):
    """Checks of the rules, by promtool and against the manual."""

    def _promtool(self, *words):
        answer = subprocess.run(
            [prometheus.find()[1], *words],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, answer.returncode, answer.stdout + answer.stderr)
        return answer.stdout

    def test_rules(self):
        self._promtool('check', 'rules', '--lint-fatal', RULES)

    def test_example(self):
        whole = ETC / 'prometheus/prometheus.yml'
        self._promtool('check', 'config', whole)
        # Beside the rules, which it names.
        with tempfile.TemporaryDirectory() as top:
            shutil.copytree(whole.parent, top, dirs_exist_ok=True)
            more = pathlib.Path(top, 'remote-write.yml').read_text()
            with pathlib.Path(top, whole.name).open('a') as file:
                file.write(more)
            self._promtool('check', 'config', pathlib.Path(top, whole.name))

    def test_what_is_kept(self):
        """All that the manual explains, and nothing of other jobs."""
        (target,) = yaml.safe_load(
            (ETC / 'prometheus/remote-write.yml').read_text()
        )['remote_write']
        (config,) = target['write_relabel_configs']
        # Prometheus anchors it.
        keeps = re.compile(config['regex']).fullmatch
        names = {rule['record'] for rule in _rules() if 'record' in rule}
        for page in 'metrics.rst', 'conductor.rst':
            text = (paths.CHECKOUT / 'doc/source/admin' / page).read_text()
            names |= set(re.findall(r'(?m)``(nova_rt_\w+)[{`]', text))
        self.assertIn('nova_rt_billing_reserved_cpus', names)
        self.assertEqual([], [name for name in names if not keeps(name)])
        for name in 'up', 'process_open_fds', 'node:nova_rt':
            self.assertIsNone(keeps(name), name)

    def test_each_alert_fires_when_it_should(self):
        for path in (ETC / 'prometheus' / 'tests').iterdir():
            self._promtool('test', 'rules', path)

    def test_each_alert_is_tested(self):
        (path,) = (ETC / 'prometheus' / 'tests').iterdir()
        # Or by the rule that uses it.
        text = path.read_text() + ''.join(rule['expr'] for rule in _rules())
        for rule in _rules():
            name = rule.get('alert') or rule['record']
            if name.startswith('server_cpu:'):
                continue  # The one of a host, by server.
            self.assertIn(name, text)

    def test_each_metric_is_explained(self):
        page = paths.CHECKOUT / 'doc/source/admin/metrics.rst'
        words = set(re.findall(r'\bnova_rt_\w+', page.read_text()))
        with exporter_fixture.RTHost() as host:
            host.add_server(10_000, 100_000, (1,))
            names = {
                sample.name
                for family in host.registry.collect()
                for sample in family.samples
            }
        self.assertEqual(set(), names - words)

    def test_each_critical_alert_has_a_runbook(self):
        """Its URL names the section."""
        page = paths.CHECKOUT / 'doc/source/admin/alerts.rst'
        titles = re.findall(r'(?m)^(\w+)\n=+$', page.read_text())
        urls = {
            rule['alert']: rule['annotations'].get('runbook_url')
            for rule in _rules()
            if rule.get('labels', {}).get('severity') == 'critical'
        }
        address = 'https://docs.example.org/nova-rt/admin/alerts.html#'
        self.assertEqual({name: address + name.lower() for name in urls}, urls)
        self.assertEqual(set(urls), set(titles) - {'Alerts'})

    def test_each_alert_is_explained(self):
        """In the manual, by its name."""
        page = paths.CHECKOUT / 'doc/source/admin/metrics.rst'
        text = page.read_text()
        for rule in _rules():
            if 'alert' in rule:
                self.assertIn(f'``{rule["alert"]}``', text)


@unittest.skipUnless(prometheus.find(), 'no prometheus')
class QueriesTest(unittest.TestCase):
    """Every query gives data, on the exporter's metrics."""

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.end = int(time.time()) // 15 * 15 - 300
        cls.start = cls.end - 3600
        cls.story = stack.enter_context(prometheus.Story(cls.end))
        running = stack.enter_context(
            prometheus.Prometheus(cls.story.openmetrics)
        )
        cls.url = running.url

    def ask(self, query):
        return ask(self.url, query, self.start, self.end)

    def fill(self, text):
        """Replace variables by their values, as Grafana does."""
        values = {
            'instance': self.story.FIRST,
            'server': self.story.server,
            'cpu': '1',
            '__rate_interval': '1m',
        }
        return re.sub(r'\$\{?(\w+)\}?', lambda found: values[found[1]], text)

    def queries(self):
        """List the queries of all panels, with their dashboard."""
        for name, dashboard in DASHBOARDS.items():
            for panel in dashboard['panels']:
                for target in panel.get('targets', ()):
                    yield name, self.fill(target['expr'])

    def test_dashboards(self):
        self.assertEqual({'cloud', 'host', 'server'}, DASHBOARDS.keys())
        for name, query in self.queries():
            with self.subTest(name, query=query):
                self.assertTrue(self.ask(query))

    def test_unknown_is_not_zero(self):
        """Without metrics, no query gives data."""
        end = self.start - 7200
        for name, query in self.queries():
            with self.subTest(name, query=query):
                self.assertEqual([], ask(self.url, query, end - 900, end))

    def test_variables(self):
        """Each is a label of metrics that there are."""
        for name, dashboard in DASHBOARDS.items():
            for variable in dashboard['templating']['list']:
                if variable['type'] == 'datasource':
                    continue
                with self.subTest(name, variable=variable['name']):
                    selector, label = re.fullmatch(
                        r'label_values\((.*), (\w+)\)', variable['definition']
                    ).groups()
                    found = self.ask(self.fill(selector))
                    self.assertIn(label, found[0]['metric'])

    def test_alerts(self):
        """Each is a query, and each metric in it is one that there is."""
        recorded = {rule['record'] for rule in _rules() if 'record' in rule}
        for rule in _rules():
            with self.subTest(rule.get('alert') or rule['record']):
                self.ask(rule['expr'])
                bare = re.sub('"[^"]*"', '', rule['expr'])
                names = set(re.findall(r'\bup\b|[\w:]*nova_rt[\w:]*', bare))
                self.assertTrue(names)
                # Off by default.
                for name in names - recorded - {'nova_rt_server_info'}:
                    self.assertTrue(self.ask(name), name)

    def test_the_story_is_told(self):
        (drift,) = self.ask(
            f'max(nova_rt_server_drifted{{instance="{self.story.FIRST}"}})'
        )
        seconds = sum(15 for _, value in drift['values'] if value != '0')
        self.assertEqual(180, seconds)
        busy = f'{{server="{self.story.server}"}}'
        (used,) = self.ask(
            f'sum(rate(nova_rt_server_cpu_used_seconds_total{busy}[1m]))'
        )
        self.assertAlmostEqual(0.57, float(used['values'][-1][1]), 3)


@unittest.skipUnless(prometheus.find(), 'no prometheus')
class ScrapeTest(unittest.TestCase):
    """Prometheus reads the exporter's page."""

    def test_scrape(self):
        with contextlib.ExitStack() as stack:
            host = stack.enter_context(exporter_fixture.RTHost())
            host.add_server(10_000, 100_000, (1,))
            options = exporter.read_options(['--config-file', '/dev/null'])
            options.set_override('port', 0, 'nova_rt_exporter')
            serving = stack.enter_context(
                exporter.make_server(options, exporter.Collector(host.reader))
            )
            self.assertIsInstance(serving, server.MetricsServer)
            thread = threading.Thread(target=serving.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(serving.shutdown)
            config = {
                'global': {'scrape_interval': '1s', 'scrape_timeout': '1s'},
                'scrape_configs': [
                    {
                        'job_name': 'nova_rt',
                        'static_configs': [
                            {
                                'targets': [
                                    f'127.0.0.1:{serving.server_address[1]}'
                                ]
                            }
                        ],
                    }
                ],
            }
            running = stack.enter_context(
                prometheus.Prometheus(config=yaml.safe_dump(config))
            )
            for _ in range(60):
                now = time.time()
                found = ask(
                    running.url,
                    'nova_rt_server_drifted == 0 and on (job) up == 1',
                    now - 30, now, 1,
                )  # fmt: skip
                if found:
                    break
                time.sleep(0.5)
            self.assertTrue(found)
