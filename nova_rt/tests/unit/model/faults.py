# SPDX-License-Identifier: Apache-2.0
"""Rules for waking up that are not the kernel's, for nova_rt.model.edf."""


def never_anew(server, now):
    """The budget is kept whatever it is worth: only an old one is replaced."""
    if server.deadline <= now:
        server.budget = server.runtime
        server.deadline = now + server.period


def always_anew(server, now):
    """Whoever sleeps has a new budget at once: more than Q in a period."""
    server.budget = server.runtime
    server.deadline = now + server.period


def full_with_old_deadline(server, now):
    """A full budget, and the deadline that the old one had."""
    if server.deadline <= now:
        server.deadline = now + server.period
    server.budget = server.runtime


def old_with_new_deadline(server, now):
    """The rest of the old budget, for a whole period."""
    if server.deadline <= now:
        server.budget = server.runtime
    server.deadline = now + server.period
