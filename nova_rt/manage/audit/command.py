# SPDX-License-Identifier: Apache-2.0
"""The command ``audit``."""

import argparse
from collections.abc import Iterator, Sequence
import logging
from typing import Any

from nova_rt.cloud import nova_db
from nova_rt.cloud.snapshot import Finding
from nova_rt.cmd.cli import base
from nova_rt.manage import progress

LOG = logging.getLogger(__name__)

_COLUMNS = ('Host', 'Server', 'Source', 'Difference', 'Remedy', 'Repair')


class Audit(base.Lister):
    """Compare all records of reservations.

    For each host: the allocations of Placement, the free bandwidth that
    nova-rt-compute publishes, and the records of the servers. nova-rt-compute
    itself checks domains and the kernel every minute. Needs the nova.conf of
    nova-api or nova-conductor.

    Servers to which something is being done are left out. A line on standard
    error counts the servers and hosts; ``-q`` omits it. The exit code is 0
    if nothing differs, or all of it was mended; 1 if something differs; 2 if
    something could not be read.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument(
            '--host',
            help='Audit this host alone. Default: all hosts of Nova.',
        )
        group = parser.add_mutually_exclusive_group()
        group.add_argument(
            '--repair',
            action='store_true',
            help='Mend allocations. What a running container has is never '
            'touched: nova-rt-compute checks and repairs it.',
        )
        group.add_argument(
            '--dry-run',
            action='store_true',
            help='Show what --repair would do, and change nothing.',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        """Audit, and mend.

        :returns: columns and rows
        :raises CannotRun: if Nova or Placement cannot be read at all
        """
        # Here, because they load Nova.
        from nova_rt.manage.audit import reading

        try:
            auditor = reading.Auditor()
            hosts = auditor.list_hosts()
        except nova_db.Unreadable as err:
            raise base.CannotRun(f'cannot audit: {err}') from err
        if parsed_args.host is not None:
            if parsed_args.host not in hosts:
                raise base.CannotRun(f'no host has the name '
                                     f'{parsed_args.host!r}')  # fmt: skip
            hosts = [parsed_args.host]
        rows: list[Sequence[str]] = [
            (
                finding.host, finding.uuid, finding.source.value,
                finding.difference, finding.remedy,
                self._repair(auditor, finding, parsed_args),
            )
            for finding in self._find(auditor, hosts)
        ]  # fmt: skip
        if self.app.options.verbose_level:
            # Else an audit that finds nothing looks like one of nothing. Not
            # to stdout, which may be read by a program.
            print(auditor.extent.describe(), file=self.app.stderr)
        return _COLUMNS, rows

    def _find(self, auditor: Any, hosts: list[str]) -> Iterator[Finding]:
        """Audit one host after the other; one that fails fails alone."""
        for host in progress.track(hosts, 'Hosts', self.app.stderr):
            try:
                yield from auditor.audit(host)
            except (nova_db.Unreadable, base.CommandFailed) as err:
                LOG.error('Cannot audit %s: %s', host, err)
                self.exit_code = base.CannotRun.exit_code

    def _repair(
        self, auditor: Any, finding: Finding, options: argparse.Namespace
    ) -> str:
        """Repair a finding, or describe its repair, by the options.

        :returns: the outcome
        """
        from nova_rt.manage.audit import repairs

        outcome = ''
        if finding.repair is not None and options.dry_run:
            outcome = repairs.describe(finding.repair)
        elif finding.repair is not None and options.repair:
            try:
                repairs.mend(auditor, finding.repair)
                return 'mended'
            except repairs.NotMended as err:
                outcome = f'not mended: {err}'
        self.exit_code = max(self.exit_code, base.CommandFailed.exit_code)
        return outcome
