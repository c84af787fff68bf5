# SPDX-License-Identifier: Apache-2.0
"""Registrations at an IMS server beside noise: figure 6 of EDGE 2019."""
