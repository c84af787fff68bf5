# SPDX-License-Identifier: Apache-2.0
"""Validation of requests to nova-api."""
