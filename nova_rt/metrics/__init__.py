# SPDX-License-Identifier: Apache-2.0
"""Pages of metrics, served to Prometheus."""
