# SPDX-License-Identifier: Apache-2.0
"""The commands of ``nova-rt-model``.

They answer at once: no module imports Nova, and numpy, YAML and matplotlib
are imported by those who need them, when they need them.
"""
