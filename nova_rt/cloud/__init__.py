# SPDX-License-Identifier: Apache-2.0
"""The reservations of a cloud by the records of Nova and Placement.

nova-rt-manage and nova-rt-api read them here, from anywhere in the cloud.
"""
