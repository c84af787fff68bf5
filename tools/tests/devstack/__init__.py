# SPDX-License-Identifier: Apache-2.0
"""A stand-in for DevStack, in which the phases of the plug-in are run.

It has the functions that DevStack has and no other, a machine that is a
directory, and programs that change nothing outside of that. See
:mod:`tools.tests.devstack.world`.
"""
