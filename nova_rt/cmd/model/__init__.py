# SPDX-License-Identifier: Apache-2.0
"""The commands of ``nova-rt-model``.

They answer at once: no module imports Nova, and numpy, YAML and matplotlib
are imported where and when they are needed.
"""
