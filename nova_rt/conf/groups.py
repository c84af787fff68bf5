# SPDX-License-Identifier: Apache-2.0
"""Registers groups of options."""

from collections.abc import Iterable, Sequence
import copy

from oslo_config import cfg


def register(
    conf: cfg.ConfigOpts,
    groups: Iterable[tuple[cfg.OptGroup, Sequence[cfg.Opt]]],
) -> None:
    """Register options in their groups on a configuration.

    :param groups: each with its options
    """
    for group, opts in groups:
        # A copy: oslo.config would keep overrides in the group itself, for
        # every configuration of the process.
        conf.register_group(copy.deepcopy(group))
        conf.register_opts(opts, group=group.name)
