# SPDX-License-Identifier: Apache-2.0
"""Validation of what users and operators send to nova-api."""
