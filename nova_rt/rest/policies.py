# SPDX-License-Identifier: Apache-2.0
"""The policy rules of nova-rt-api.

They lie in Nova's policy file, beside Nova's own, and use its base rules: a
change of ``project_reader_api`` holds for both.
"""

from nova.policies import base
from oslo_config import cfg
from oslo_policy import policy

SHOW = 'rt:reservation:show'
LIST = 'rt:reservation:list'
LIST_ALL = 'rt:reservation:list_all'
SHOW_HOST = 'rt:reservation:show_host'
HISTORY = 'rt:reservation:history'
SET = 'rt:reservation:set'
SET_ANY = 'rt:reservation:set_any'
SET_MIGRATE = 'rt:reservation:set_migrate'
LIST_HOSTS = 'rt:host:list'
GET_HOST = 'rt:host:show'

_SERVER = '/v1/servers/{server}/reservation'


def _rule(
    name: str, check: str, text: str, method: str, path: str
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=text,
        operations=[{'method': method, 'path': path}],
        scope_types=['project'],
    )


_RULES = [
    _rule(SHOW, base.PROJECT_READER_OR_ADMIN,
          'Show the reservation of a server.', 'GET', _SERVER),
    _rule(LIST, base.PROJECT_READER_OR_ADMIN,
          'List the reservations of a project.', 'GET', '/v1/reservations'),
    _rule(LIST_ALL, base.ADMIN,
          'List the reservations of all projects.',
          'GET', '/v1/reservations?all_projects=true'),
    _rule(SHOW_HOST, base.ADMIN,
          'Show the hosts and CPUs of reservations, the bandwidth that is '
          'free there, and the details of events, and filter by host.',
          'GET', _SERVER),
    _rule(HISTORY, base.PROJECT_READER_OR_ADMIN,
          'Show the events of the reservation of a server.',
          'GET', f'{_SERVER}/history'),
    _rule(SET, base.PROJECT_MEMBER_OR_ADMIN,
          'Change the reservation of a running server, within '
          '``rt:runtime_min`` and ``rt:runtime_max`` of its flavor.',
          'PUT', _SERVER),
    _rule(SET_ANY, base.ADMIN,
          'Change the reservation of a running server beyond the bounds of '
          'its flavor; see ``rt:reservation:set``.',
          'PUT', _SERVER),
    _rule(SET_MIGRATE, base.PROJECT_MANAGER_OR_ADMIN,
          'Let a change migrate the server to another host if its own has no '
          'room (``on_no_room`` = ``migrate``); see ``rt:reservation:set``.',
          'PUT', _SERVER),
    _rule(LIST_HOSTS, base.ADMIN,
          'List hosts with their bandwidth.', 'GET', '/v1/hosts'),
    _rule(GET_HOST, base.ADMIN,
          'Show the CPUs of a host, and the servers on them.',
          'GET', '/v1/hosts/{name}'),
]  # fmt: skip


def list_rules() -> list[policy.RuleDefault]:
    """All rules, for the tools of oslo.policy."""
    return list(_RULES)


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Make an enforcer of these rules.

    :param conf: names the policy file
    :returns: the enforcer, which reads the file again when that changes
    """
    enforcer = policy.Enforcer(conf)
    # Of Nova's rules: nova-api says so.
    enforcer.suppress_deprecation_warnings = True
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults([*base.list_rules(), *_RULES])
    return enforcer
