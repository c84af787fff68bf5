# SPDX-License-Identifier: Apache-2.0
"""The commands of ``nova-rt-manage``, one module for each noun.

A module is imported to print a list of commands: it imports Nova, SQLAlchemy
and other large libraries only in the functions that need them.
"""
