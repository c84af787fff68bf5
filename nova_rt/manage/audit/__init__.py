# SPDX-License-Identifier: Apache-2.0
"""``audit``: does everything say the same about who reserves what.

``reading`` and its helpers make a :class:`.picture.Picture` of a host,
``compare`` finds what differs in it, ``repairs`` mends what may be mended from
outside the compute service.
"""
