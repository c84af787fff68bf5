# SPDX-License-Identifier: Apache-2.0
"""Static reservations and laws of feedback, on the same requests."""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import functools
import itertools
import statistics

from experiments.feedback import service, traces
from nova_rt.feedback import captain, quantile
from nova_rt.feedback.law import Law

#: CPU time of a request, on average, and the deadline of its response.
MEAN_S = 0.0015
DEADLINE_NS = 200_000_000
#: The flavor: runtimes of 2 to 95 % of a period of 10 ms.
BOUNDS = service.Bounds(10_000, 200, 9_500)
#: Step between two static runtimes, microseconds, and the largest share of
#: late requests that one is tried for.
_STEP_US = 50
_WORST = 0.002
SEED = 1

#: Name of a law with its parameters -> makes the law.
LAWS: Mapping[str, Callable[[], Law]] = {
    **{
        f'throttled, target {target:g}': functools.partial(
            captain.Captain, target
        )
        for target in (0.02, 0.05, 0.1, 0.2)
    },
    **{
        f'quantile 0.95, surplus {surplus:g}': functools.partial(
            quantile.Quantile, 0.95, surplus
        )
        for surplus in (0.25, 0.5)
    },
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A way to reserve, on one trace.

    :ivar name: of the law; ``static`` for the smallest reservation without a
        late request
    :ivar late: requests with a response after the deadline
    :ivar requests: all of them
    :ivar reserved: mean bandwidth, in CPUs
    :ivar static: the smallest static bandwidth without a late request
    :ivar equal: the smallest static bandwidth with no more late requests
    :ivar changes: of the runtime
    :ivar course: bandwidth of each second
    """

    trace: str
    name: str
    late: int
    requests: int
    reserved: float
    static: float
    equal: float
    changes: int
    course: list[float]


def compare(trace: str, rates: traces.Rates) -> Iterator[Row]:
    """Simulate all ways to reserve.

    :param trace: its name
    :returns: the rows of the table, the static one first
    :raises ValueError: if the largest reservation is too small
    """
    requests = traces.draw(rates, MEAN_S, SEED)
    curve = _find_static(requests)
    runs = {'static': (curve[0][0], None)} | {
        name: (curve[0][0], make()) for name, make in LAWS.items()
    }
    for name, (runtime_us, law) in runs.items():
        run = service.simulate(requests, BOUNDS, runtime_us, law)
        late = run.count_late(DEADLINE_NS)
        equal_us = min(
            runtime_us for runtime_us, other in curve if other <= late
        )
        period_us = BOUNDS.period_us
        held = run.runtimes_us
        yield Row(
            trace,
            name,
            late,
            len(requests.works_ns),
            run.reserved(period_us),
            curve[0][0] / period_us,
            equal_us / period_us,
            sum(one != two for one, two in itertools.pairwise(held)),
            [
                statistics.mean(held[at : at + 10]) / period_us
                for at in range(0, len(held), 10)
            ],
        )


def _find_static(requests: service.Requests) -> list[tuple[int, int]]:
    """Find static runtimes, from the smallest without a late request down.

    :returns: pairs of runtime and number of late requests
    """

    def count(runtime_us: int) -> int:
        run = service.simulate(requests, BOUNDS, runtime_us, None)
        return run.count_late(DEADLINE_NS)

    low, high = 0, BOUNDS.runtime_max_us // _STEP_US
    if count(high * _STEP_US):
        raise ValueError('a whole CPU is too little for this trace')
    while high - low > 1:
        middle = (low + high) // 2
        if count(middle * _STEP_US):
            low = middle
        else:
            high = middle
    curve = [(high * _STEP_US, 0)]
    while curve[-1][1] <= _WORST * len(requests.works_ns):
        runtime_us = curve[-1][0] - _STEP_US
        curve.append((runtime_us, count(runtime_us)))
    return curve
