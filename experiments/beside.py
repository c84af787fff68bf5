# SPDX-License-Identifier: Apache-2.0
"""Bounds on the effect of noise, and its effect without our kernel."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses

from experiments import noises
from experiments.evaluate import Result
from experiments.verdict import Verdict, beyond, each, reserved

#: 99th percentile of a real-time server with noise against without.
ISOLATION = 1.02
#: The noise of the papers has a period of 100 ms. A server with a period up to
#: this one waits for it so seldom that the 99th percentile does not change.
SHORT_US = 2_000


def verdicts(results: Mapping[str, Sequence[Result]]) -> Iterator[Verdict]:
    """Judge the points that have noise.

    :param results: results by the names of the figures
    """
    measured = [one for some in results.values() for one in some]
    # In one figure all points have the same requests.
    yield from _isolation(
        [pair for some in results.values() for pair in ratios(some)]
    )
    yield from _beside_busy(measured)


def _isolation(pairs: Sequence[tuple[Result, float]]) -> Iterator[Verdict]:
    """Against the same server alone, where its period is the shortest."""
    for kind, noise in noises.KINDS.items():
        found = [
            ratio
            for one, ratio in pairs
            if one.point.noise == kind
            and reserved(one)
            and one.point.period_us <= SHORT_US
        ]
        if noise.longer and found:
            yield Verdict(
                f'The 99th percentile beside {noise.words} is at most '
                f'{ISOLATION} times that without, with a period of at most '
                f'{SHORT_US / 1e3:g} ms',
                f'{max(found):.4f}, {len(found)} points',
                max(found) <= ISOLATION,
            )


def _beside_busy(results: Sequence[Result]) -> Iterator[Verdict]:
    """Against the simulated scheduler beside the same neighbours."""
    used = [
        one
        for one in results
        if reserved(one) and noises.KINDS[one.point.noise].busy
    ]
    if used:
        found = [one.measured.percentile_s / one.phases_s[1] for one in used]
        yield Verdict(
            'The 99th percentile beside neighbours that are always busy is at '
            f'most {ISOLATION} times that of the simulated scheduler beside '
            'the same, beginning at the worst of some instants',
            f'{min(found):.4f} to {max(found):.4f}, {len(used)} points',
            max(found) <= ISOLATION,
            each(
                used,
                lambda one: (
                    f'{one.measured.percentile_s * 1e3:.3f} of '
                    f'{one.phases_s[0] * 1e3:.3f} to '
                    f'{one.phases_s[1] * 1e3:.3f} ms'
                ),
            ),
        )


def ratios(results: Sequence[Result]) -> Iterator[tuple[Result, float]]:
    """99th percentiles with noise over those without, for equal requests.

    :returns: the result with noise, and the ratio
    """
    quiet = {
        one.point: one for one in results if one.point.noise == noises.NONE
    }
    for one in results:
        alone = quiet.get(dataclasses.replace(one.point, noise=noises.NONE))
        if (
            one.point.noise != noises.NONE
            and alone
            and one.point.kernel == 'hcbs'
        ):
            yield one, one.measured.percentile_s / alone.measured.percentile_s


def unpatched(results: Sequence[Result]) -> Iterator[Verdict]:
    """Judge the control: a bound that every kernel keeps shows nothing."""
    used = [one for one in results if one.gap_s and one.point.kernel == 'base']
    if used:
        yield Verdict(
            'On the unpatched kernel, which only limits, responses are later '
            'than P - Q allows',
            f'{beyond(used)} are later, {len(used)} points',
            any(one.beyond for one in used),
            each(
                used,
                lambda one: (
                    f'{beyond([one])}, by up to {one.excess_s * 1e3:.3f} of '
                    f'{one.gap_s * 1e3:.3f} ms'
                ),
            ),
        )
