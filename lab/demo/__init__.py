# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a real-time server on a real cloud, measured."""
