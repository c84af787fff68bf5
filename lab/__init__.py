# SPDX-License-Identifier: Apache-2.0
"""The lab: a whole OpenStack with nova_rt on one machine.

``python -m lab up`` starts it, ``python -m lab down`` removes it again. See
README.rst.
"""
