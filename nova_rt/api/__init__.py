# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside nova-api."""
