# SPDX-License-Identifier: Apache-2.0
"""``nova-rt-status``: can this host hold reservations, can it be upgraded.

``host check`` and ``host usage`` read nova.conf where there is one, and work
without.
"""

from collections.abc import Mapping
from importlib import metadata
import json
import os
import sys
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_rt import conf as nova_rt_conf
from nova_rt import exception
from nova_rt.cloud import nova_db
from nova_rt.cmd import flavors, nova_compat, options
from nova_rt.conf import nova as nova_conf
from nova_rt.conf import nova_api
from nova_rt.host import cpus
from nova_rt.host.capability import Capability
from nova_rt.host.files import Files
from nova_rt.host.host import Host
from nova_rt.host.options import Options
import nova_rt.privsep
from nova_rt.reservation import cpulist
from nova_rt.reservation.admission import Scope
from nova_rt.reservation.bounds import Bounds
from nova_rt.reservation.extra_specs import Enforcement

_PROG = 'nova-rt-status'
_VALIDATORS = 'nova.api.extra_spec_validators'
_FILTER = 'RTBandwidthFilter'

_ENFORCEMENT = {
    Enforcement.GUARANTEE: 'guarantee: the runtime is there in every period',
    Enforcement.SOFT: 'soft: the runtime is there in every period, except '
    'while real-time tasks of the host run; flavors need rt:enforcement=soft '
    'or limit',
    Enforcement.LIMIT: 'limit: no more than the runtime is taken; flavors '
    'need rt:enforcement=limit',
}
_SCOPE = {
    Scope.CPU: 'each CPU by itself',
    Scope.HOST: 'the whole host, whatever the CPUs',
}


class Checks(upgradecheck.UpgradeCommands):
    """Conditions that must hold before the services start with new code."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf
        self._advice: list[str] = []

    def _nova(self) -> upgradecheck.Result:
        version = metadata.version('nova')
        misfits = nova_compat.find_misfits()
        if misfits:
            self._advice += [
                f'Nova {version} is not what this nova_rt stands on:',
                *(f'  {misfit}' for misfit in misfits),
            ]
            return upgradecheck.Result(
                upgradecheck.Code.FAILURE,
                f'This nova_rt does not fit Nova {version}: {len(misfits)} '
                'differences are printed below.',
            )
        if nova_compat.describe(version) is None:
            tried = ', '.join(dict.fromkeys(nova_compat.TRIED.values()))
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                f'Nova {version} has what this nova_rt extends and calls, but '
                f'was never tried with it. Tried were: {tried}.',
            )
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)

    def _validators(self) -> upgradecheck.Result:
        try:
            (point,) = metadata.entry_points(group=_VALIDATORS, name='rt')
            point.load().register()
        except Exception as err:
            return upgradecheck.Result(
                upgradecheck.Code.FAILURE,
                f'nova-api cannot load the validators of rt: extra specs '
                f'(entry point rt of {_VALIDATORS}): {err!r}',
            )
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)

    def _flavors(self) -> upgradecheck.Result:
        allowed = Bounds.from_options(self._conf.nova_rt)
        try:
            found = [
                finding
                for flavor in flavors.read()
                if (finding := flavors.judge(flavor, allowed))
            ]
        except nova_db.Unreadable as err:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                f'Flavors were not checked: {err}. Run this where nova-api '
                'or nova-conductor has its nova.conf.',
            )
        if not found:
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        for finding in found:
            self._advice += finding.render()
        names = ', '.join(finding.name for finding in found)
        return upgradecheck.Result(
            upgradecheck.Code.FAILURE,
            'Real-time flavors whose servers are refused, or run without a '
            'reservation where nova-scheduler lacks RTBandwidthFilter: '
            f'{names}. What to do is printed below.',
        )

    def _filter(self) -> upgradecheck.Result:
        # Here, because the commands for a host need no Nova.
        import nova.conf

        conf = nova.conf.CONF
        if _FILTER in conf.filter_scheduler.enabled_filters:
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        found = conf.get_location('enabled_filters', 'filter_scheduler')
        is_set = found is not None and found.location.is_user_controlled
        if not is_set and not conf.api_database.connection:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING,
                'The filters of nova-scheduler were not checked: neither '
                '[filter_scheduler] enabled_filters nor [api_database] '
                'connection is set. Run this where nova-scheduler has its '
                'nova.conf.',
            )
        return upgradecheck.Result(
            upgradecheck.Code.FAILURE,
            f'{_FILTER} is not in [filter_scheduler] enabled_filters. Without '
            'it nova-scheduler takes real-time flavors for plain ones: it '
            'sends servers to hosts that refuse them, and may begin a resize '
            'to another cell, which hangs. If nova-scheduler reads another '
            'file than this command, name it by --config-file.',
        )

    def _moves(self) -> upgradecheck.Result:
        if not nova_api.is_configured(self._conf):
            return upgradecheck.Result(
                upgradecheck.Code.SUCCESS,
                'Changes with on_no_room = migrate are refused: '
                '[nova_rt_nova] auth_type is not set.',
            )
        # Here, because no other check needs its libraries.
        from nova_rt.conductor import nova_api as client

        reason = client.check(self._conf)
        if reason is None:
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        return upgradecheck.Result(upgradecheck.Code.FAILURE, reason)

    def check(self) -> upgradecheck.Code:
        """Print the table, and below it the texts that are too wide for it.

        :returns: the code of the worst result
        """
        self._advice.clear()
        code = super().check()
        for line in self._advice:
            print(line)
        return code

    _upgrade_checks = (
        ('Nova', _nova),
        ('Validators of extra specs', _validators),
        ('Real-time flavors', _flavors),
        ('Filter of nova-scheduler', _filter),
        ('Credentials for moves', _moves),
    )


def _table(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f'{name:<{width}}  {value}')


def _collect_facts(
    host: Host, found: Capability, reserved_ppm: int, files: Files
) -> dict[str, Any]:
    """Collect the facts about a host, as JSON has them."""
    capacity = host.capacity()
    pool = capacity.spare
    return {
        'interface': found.name,
        'cgroup': found.interface.cgroup,
        'enforcement': found.enforcement.value,
        'scope': found.scope.value,
        'ceiling_ppm': found.ceiling.total_ppm,
        'reserved_ppm': reserved_ppm,
        'capacity_ppm': capacity.total_ppm,
        'other_groups_ppm': dict(found.others),
        'cpus_online': sorted(cpus.read_online(files)),
        'cpus_offered': sorted(capacity.cpus),
        'nodes': {node: sorted(on) for node, on in capacity.nodes.items()},
        'partition': str(found.partition),
        'prepared': found.prepared,
        'spare_pool': None if pool is None else str(pool),
    }


def _make_rows(
    facts: Mapping[str, Any], left_out: str
) -> list[tuple[str, str]]:
    """Say the same facts in words.

    :param left_out: CPUs that are not offered, and why: for people only
    """
    scope = Scope(facts['scope'])
    kept = 'on each CPU' if scope is Scope.CPU else 'of the host'
    others = [
        f'{name} {ppm} ppm' for name, ppm in facts['other_groups_ppm'].items()
    ]
    state = 'prepared; the kernel holds reservations'
    if not facts['prepared']:
        state = (
            'not prepared, nothing tried; nova-rt-compute does it when it '
            'starts, --prepare does it now'
        )
    return [
        ('Interface', f'{facts["interface"]}, {facts["cgroup"]}'),
        ('Enforcement', _ENFORCEMENT[Enforcement(facts['enforcement'])]),
        ('Summed over', _SCOPE[scope]),
        ('Ceiling', f'{facts["ceiling_ppm"]} ppm'),
        ('Kept back', f'{facts["reserved_ppm"]} ppm {kept}'),
        ('Other groups', ', '.join(others) or 'hold nothing'),
        ('CPUs online', cpulist.render(facts['cpus_online'])),
        ('CPUs offered', cpulist.render(facts['cpus_offered'])),
        ('CPUs left out', left_out or 'none'),
        *(
            (f'CPUs of node {node}', cpulist.render(on_it))
            for node, on_it in facts['nodes'].items()
        ),
        ('Spare pool', facts['spare_pool'] or 'none'),
        ('Capacity', f'{facts["capacity_ppm"]} ppm'),
        ('Partition', facts['partition']),
        ('State', state),
    ]


def _make_host(conf: cfg.ConfigOpts, files: Files | None) -> Host:
    options = Options.from_group(conf.nova_rt, nova_conf.read_cpus(conf))
    return Host.from_options(options, files)


def check_host(
    conf: cfg.ConfigOpts,
    prepare: bool,
    files: Files | None = None,
    form: str = 'table',
) -> int:
    """Print the interface and the capacity of this host's kernel.

    :param prepare: whether to give the partition its bandwidth, as
        nova-rt-compute does when it starts
    :param form: ``table`` or ``json``
    :returns: the exit code, 0 if the host can hold reservations
    """
    files = files or Files()
    host = _make_host(conf, files)
    try:
        found = host.look()
        if conf.nova_rt.id_pool:
            host.check_children()
        no_fuse = host.find_no_fuse()
        if no_fuse:
            raise exception.HostNotPrepared(no_fuse)
        if prepare or found.prepared:
            found = host.start()
    except exception.HostError as err:
        if form == 'json':
            print(json.dumps({'error': str(err)}, indent=2))
        else:
            print(f'This host cannot hold reservations: {err}')
        return 1
    facts = _collect_facts(host, found, conf.nova_rt.reserved_ppm, files)
    if form == 'json':
        print(json.dumps(facts, indent=2))
    else:
        _table(_make_rows(facts, host.offer.left_out))
    return 0


def show_usage(conf: cfg.ConfigOpts, files: Files | None = None) -> int:
    """Print the usage of the reservations on this host.

    :returns: the exit code, 0 if the kernel says it
    """
    host = _make_host(conf, files)
    try:
        found = host.look()
    except exception.HostError as err:
        print(f'This host cannot hold reservations: {err}')
        return 1
    usages = host.read_usages()
    if usages is None:
        print(f'The kernel does not count this with {found.name}.')
        return 1
    print('CPU  periods  throttled  used ms  reservation  group')
    for name, held, by_cpu in usages:
        for cpu, usage in sorted(by_cpu.items()):
            print(
                f'{cpu:>3}  {usage.periods:>7}  {usage.throttled:>9}  '
                f'{usage.used_us // 1000:>7}  {held}  {name}'
            )
    return 0


def _parsers(conf: cfg.ConfigOpts) -> cfg.SubCommandOpt:
    def add(subparsers: Any) -> None:
        upgrade = subparsers.add_parser(
            'upgrade', help='before the services start with new code'
        )
        upgrade.add_argument('check', choices=['check'])
        upgrade.set_defaults(action_fn=Checks(conf).check)
        host = subparsers.add_parser(
            'host', help='what the kernel of this host offers, what is used'
        )
        host.add_argument('what', choices=['check', 'usage'])
        host.add_argument(
            '--prepare',
            action='store_true',
            help='check: give the partition its bandwidth',
        )
        host.add_argument(
            '-f', '--format',
            choices=['table', 'json'],
            default='table',
            help='check: form of the answer',
        )  # fmt: skip
        host.set_defaults(
            action_fn=lambda: (
                show_usage(conf)
                if conf.command.what == 'usage'
                else check_host(
                    conf, conf.command.prepare, form=conf.command.format
                )
            )
        )

    return cfg.SubCommandOpt('command', handler=add)


def main() -> int:
    """Run one command; the exit code tells its outcome.

    0: all is well; 1: the host cannot hold reservations, or a check warns;
    2: a check failed; 255: the command itself failed.
    """
    # The context of the privileged functions is bound to this one.
    conf = cfg.CONF
    nova_rt_conf.register_opts(conf)
    conf.register_cli_opt(_parsers(conf))
    try:
        with options.errors(conf):
            conf(
                sys.argv[1:],
                project='nova',
                prog=_PROG,
                default_config_files=options.find_files(_PROG),
            )
        options.check(conf, 'nova_rt')
    except options.Unusable as err:
        print(f'{_PROG}: {err}', file=sys.stderr)
        return 255
    if os.geteuid() == 0:
        # Root has no need of a helper.
        nova_rt.privsep.rt_pctxt.set_client_mode(False)
    return upgradecheck.run(conf)


if __name__ == '__main__':
    sys.exit(main())
