# SPDX-License-Identifier: Apache-2.0
"""A real DevStack with nova_rt's plug-in, in a container with systemd.

It changes nothing of the machine outside $NOVA_RT_LAB. The container is
tools/container.sh's; DevStack clones its repositories from GIT_BASE.
"""
