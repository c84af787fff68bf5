# SPDX-License-Identifier: Apache-2.0
"""Random operations on several hosts, against a model of what must be held."""
