# SPDX-License-Identifier: Apache-2.0
"""Installs nova_rt as operators do, and sees that it works and goes away.

Each way to install it is a module of its own, and a command::

    python -m tools.install COMMAND
"""
