# SPDX-License-Identifier: Apache-2.0
"""``audit``: a comparison of all records of reservations.

``reading`` makes a :class:`~nova_rt.cloud.snapshot.HostSnapshot` of a host,
``compare`` finds differences in it, and ``repairs`` mends those that can be
mended outside the compute service.
"""
