# SPDX-License-Identifier: Apache-2.0
"""Checks of the bounds that the project states."""

from collections.abc import Iterator, Mapping, Sequence
import statistics

from experiments import beside
from experiments.evaluate import JITTER_S, Result
from experiments.verdict import (
    Verdict,
    beyond,
    each,
    quiet,
    reserved,
)
from nova_rt.model.limits import Limits

#: Mean error at most, for load ratios up to this and without a link.
MEAN_ERROR = 0.05
MODERATE = 0.8
#: Error of the exact percentile at most, at each point.
PERCENTILE_ERROR = 0.05
#: The papers' percentile holds up to this use of the link.
HALF_A_LINK = 0.5
#: Mean lateness of the link against the simulated token bucket.
LINK_ERROR = 0.02
#: Mean and 99th percentile against the simulated scheduler, at each point with
#: a moderate load.
SCHEDULER_ERROR = 0.02


def verdicts(results: Mapping[str, Sequence[Result]]) -> list[Verdict]:
    """Judge all figures.

    :param results: results by the names of the figures
    :returns: the bounds that some point can show or break
    """
    measured = [one for some in results.values() for one in some]
    several = [one for one in measured if one.point.cpus > 1]
    everything = [one for one in measured if one.point.cpus == 1]
    found = [
        _guaranteed(everything),
        beside.unpatched(everything),
        _never_longer(everything),
        _link(everything),
        _conservative(everything),
        _exact_percentile(everything),
        _mean_error(everything),
        _each_point(everything),
        _several(several),
        beside.verdicts(results),
        _lost(measured),
    ]
    return [verdict for one in found for verdict in one]


def _guaranteed(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [one for one in results if reserved(one) and one.gap_s > 0]
    if used:
        worst = max(used, key=lambda one: one.excess_s - one.gap_s)
        yield Verdict(
            'No response is later than on a CPU that is always there by more '
            f'than P - Q, {Limits().overhead_us:g} us in each period '
            f'for switching and {JITTER_S * 1e6:.0f} us for the network',
            f'{beyond(used)} are; at the tightest point '
            f'{worst.excess_s * 1e3:.3f} ms of {worst.gap_s * 1e3:.3f} ms, '
            f'{len(used)} points',
            not any(one.beyond for one in used),
            each(
                used,
                lambda one: (
                    f'{one.excess_s * 1e3:.3f} of {one.gap_s * 1e3:.3f} ms'
                ),
            ),
        )


def _each_point(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [
        one
        for one in results
        if quiet(one)
        and one.point.cpu_load / one.point.bandwidth <= MODERATE + 1e-9
    ]
    if used:
        found = [
            max(abs(one.scheduler_error), abs(one.scheduler_percentile_error))
            for one in used
        ]
        within = sum(each <= SCHEDULER_ERROR for each in found)
        yield Verdict(
            'Mean and 99th percentile are within '
            f'{SCHEDULER_ERROR:.0%} of the simulated scheduler with the same '
            f'requests, at each point with a load ratio up to {MODERATE:g}',
            f'{within} of {len(used)} points, largest {max(found):.2%}',
            within == len(used),
            each(
                used,
                lambda one: (
                    f'{one.scheduler_error:+.2%}, 99th percentile '
                    f'{one.scheduler_percentile_error:+.2%}'
                ),
            ),
        )


def _never_longer(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [one for one in results if reserved(one) and one.guaranteed_s]
    if used:
        tight = [one.longest_s / one.guaranteed_s for one in used]
        yield Verdict(
            'No response to requests of constant CPU times exceeds the '
            f'guaranteed bound and {JITTER_S * 1e6:.0f} us for the network',
            f'the longest are {min(tight):.2f} to {max(tight):.2f} of it, '
            f'{len(used)} points',
            all(one.longest_s <= one.guaranteed_s + JITTER_S for one in used),
            each(
                used,
                lambda one: (
                    f'{one.longest_s * 1e3:.3f} of '
                    f'{one.guaranteed_s * 1e3:.3f} ms'
                ),
            ),
        )


def _half_a_link(results: Sequence[Result]) -> list[Result]:
    """Results with a link of which at most half is used."""
    return [
        one
        for one in results
        if quiet(one) and 0 < one.point.link_ratio <= HALF_A_LINK + 1e-6
    ]


def _conservative(results: Sequence[Result]) -> Iterator[Verdict]:
    used = _half_a_link(results)
    if used:
        with_chance = [one.measured.percentile_s / one.bound_s for one in used]
        ratios = [one.expected_percentile_s / one.bound_s for one in used]
        yield Verdict(
            "The papers' bound is not below the 99th percentile where at most "
            'half of the link is used',
            f'measured, at most {max(with_chance):.3f} of the bound; apart '
            f'from what is chance, at most {max(ratios):.3f}; '
            f'{len(used)} points',
            max(ratios + with_chance) <= 1,
            each(
                used,
                lambda one: (
                    f'{one.measured.percentile_s * 1e3:.3f} of '
                    f'{one.bound_s * 1e3:.3f} ms'
                ),
            ),
        )


def _exact_percentile(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [
        one
        for one in results
        if quiet(one)
        and one.point.link_bit_per_s
        and one.point.size_is == 'exponential'
        and not one.lost
    ]
    if used:
        plain = [
            one.expected_percentile_s / one.theory.percentile_s - 1
            for one in used
        ]
        errors = [one.percentile_error for one in used]
        yield Verdict(
            'For exponential sizes, the exact 99th percentile of the tandem, '
            'less the frame that passes the token bucket at once, is '
            f'within {PERCENTILE_ERROR:.0%} at each point, apart from what is '
            'chance',
            f'{min(errors):+.1%} to {max(errors):+.1%}, {len(used)} points; '
            f'with the frame, {min(plain):+.1%} to {max(plain):+.1%}',
            max(map(abs, errors)) <= PERCENTILE_ERROR,
            each(used, lambda one: f'{one.percentile_error:+.1%}'),
        )


def _mean_error(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [
        one
        for one in results
        if quiet(one)
        and not one.point.link_bit_per_s
        and one.point.work_is == 'exponential'
        and one.point.cpu_load / one.point.bandwidth <= MODERATE + 1e-9
    ]
    if not used:
        return
    where = f'for load ratios up to {MODERATE:g} and without a link'
    fluid = [abs(one.fluid_error) for one in used]
    known = [one for one in used if one.alone_error is not None]
    if known:
        errors = _alone_errors(known)
        yield Verdict(
            'The mean error of the model for a container alone on its CPU, '
            f'sizing.mean_alone_s(), {where}, is at most {MEAN_ERROR:.0%}, '
            'apart from what is chance',
            f'mean {statistics.mean(errors):.2%}, largest {max(errors):.2%}, '
            f'{len(known)} of {len(used)} points, as far as it is valid; '
            "the papers' formula is not judged: mean "
            f'{statistics.mean(fluid):.1%}, largest {max(fluid):.1%}',
            statistics.mean(errors) <= MEAN_ERROR,
            each(
                known,
                lambda one: (
                    f'{one.alone_error:+.1%}; formula '
                    f'{one.fluid_error:+.1%}, with chance {one.error:+.1%}'
                ),
            ),
        )
    errors = [abs(one.scheduler_error) for one in used]
    yield Verdict(
        f'The mean error of the simulated scheduler, {where}, is at most '
        f'{MEAN_ERROR:.0%}, apart from what is chance',
        f'mean {statistics.mean(errors):.2%}, largest {max(errors):.2%}, '
        f'{len(used)} points',
        statistics.mean(errors) <= MEAN_ERROR,
        each(used, lambda one: f'{one.scheduler_error:+.1%}'),
    )


def _alone_errors(results: Sequence[Result]) -> list[float]:
    """Errors of the model for a container alone, where it is valid."""
    return [
        abs(error) for one in results if (error := one.alone_error) is not None
    ]


def _link(results: Sequence[Result]) -> Iterator[Verdict]:
    used = _half_a_link(results)
    if used:
        found = [one.link_late_s / one.measured.mean_s for one in used]
        yield Verdict(
            'Where at most half of the link is used, requests come to the '
            'server later than from the simulated token bucket by at most '
            f'{LINK_ERROR:.0%} of the mean response time, on average',
            f'{min(found):+.2%} to {max(found):+.2%}, {len(used)} points',
            max(map(abs, found)) <= LINK_ERROR,
            each(used, lambda one: f'{one.link_late_s * 1e6:+.1f} us'),
        )


def _several(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [one for one in results if reserved(one)]
    if used:
        fluid = [one.fluid_error for one in used]
        shared = _alone_errors(used)
        yield Verdict(
            'M/M/n is not below the mean of a container with several CPUs, '
            'apart from what is chance',
            f'{min(fluid):+.1%} to {max(fluid):+.1%}, {len(used)} points',
            max(fluid) <= 0,
            each(used, lambda one: f'{one.fluid_error:+.1%}'),
        )
        yield Verdict(
            'The mean error of the model for several CPUs that are alone, '
            f'several.mean_shared_s(), is at most {MEAN_ERROR:.0%}, apart '
            'from what is chance',
            f'mean {statistics.mean(shared):.2%}, largest {max(shared):.2%}, '
            f'{len(used)} points',
            statistics.mean(shared) <= MEAN_ERROR,
            each(used, lambda one: f'{one.alone_error:+.1%}'),
        )


def _lost(results: Sequence[Result]) -> Iterator[Verdict]:
    used = [
        one
        for one in results
        if reserved(one) and not one.point.link_bit_per_s
    ]
    if used:
        lost = sum(one.lost for one in used)
        yield Verdict(
            'No request to a reservation is lost where no link drops it',
            f'{lost} of {sum(one.count for one in used) + lost}',
            not lost,
        )
