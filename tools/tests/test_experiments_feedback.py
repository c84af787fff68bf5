# SPDX-License-Identifier: Apache-2.0
"""The simulated service whose reservation follows its load."""

import contextlib
import io
import pathlib
import tempfile

import ddt
import numpy
from oslotest import base

from experiments.feedback import __main__ as command
from experiments.feedback import compare, service, traces
from nova_rt.feedback import captain
from nova_rt.model import cbs
from nova_rt.reservation.reservation import Reservation

BOUNDS = service.Bounds(10_000, 200, 9_500)


@ddt.ddt
class FeedbackTest(base.BaseTestCase):
    @ddt.data(*traces.KINDS)
    def test_traces(self, kind):
        rates = traces.make(kind, 300, 1)
        self.assertEqual(300, len(rates))
        self.assertLess(0, min(rates))
        self.assertLess(1.3 * sum(rates) / 300, max(rates))
        self.assertEqual(rates, traces.make(kind, 300, 1))

    def test_the_same_as_the_model(self):
        """A runtime that stays: the deadline server of nova_rt/model."""
        requests = traces.draw([200] * 20, 0.0015, 1)
        run = service.simulate(requests, BOUNDS, 4000, None)
        server = cbs.DeadlineServer(Reservation(4000, 10_000))
        done = server.fifo_ns(
            numpy.array(requests.arrivals_ns), numpy.array(requests.works_ns)
        )
        wanted = done - requests.arrivals_ns
        self.assertEqual(
            wanted[: len(run.responses_ns)].tolist(), run.responses_ns
        )
        self.assertLess(len(wanted) - 20, len(run.responses_ns))

    def test_follows(self):
        """It has more while the load is high, and gives it back."""
        requests = traces.draw([100] * 20 + [400] * 20 + [100] * 40, 0.0015, 1)
        run = service.simulate(requests, BOUNDS, 3000, captain.Captain())
        low, high, end = (run.runtimes_us[at] for at in (199, 399, 799))
        self.assertLess(6000, high)
        self.assertLess(max(low, end), 5000)
        self.assertEqual(800, len(run.runtimes_us))

    def test_rows(self):
        static, *others = compare.compare('x', [60] * 10 + [250] * 20)
        self.assertEqual(('static', 0), (static.name, static.late))
        self.assertAlmostEqual(static.static, static.reserved)
        self.assertEqual([*compare.LAWS], [row.name for row in others])
        for row in others:
            self.assertLessEqual(row.equal, static.static)
            self.assertEqual(30, len(row.course))

    def test_command(self):
        with tempfile.TemporaryDirectory() as directory:
            output = pathlib.Path(directory)
            trace = output / 'short.txt'
            trace.write_text('60\n70\n80\n')
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                code = command.main(
                    ['--trace', str(trace), '--output', directory]
                )
            self.assertEqual(0, code)
            rows = (output / 'feedback.csv').read_text().splitlines()
            self.assertEqual(2 + len(compare.LAWS), len(rows))
            self.assertEqual(len(rows) - 1, len(said.getvalue().splitlines()))
            self.assertIn('<svg', (output / 'feedback.svg').read_text())

    def test_no_trace(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(2, command.main(['--trace', '/no/such/file']))
        self.assertIn('/no/such/file', said.getvalue())
