# SPDX-License-Identifier: Apache-2.0
"""Laws by which the reservation of a server follows its load.

Pure: no Nova, no files, no clock. nova-rt-compute applies them to servers, and
``experiments/feedback`` to a simulated service. ``meter`` turns counters of
the kernel into samples; ``law`` is the interface of the laws, ``captain`` and
``quantile`` are laws.
"""
