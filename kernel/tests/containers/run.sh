#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Inside the Debian guest: nova_rt's host layer on the kernel with the series.
set -eu
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1 VIRTUAL_ENV=/opt/nova_rt
PATH=/opt/nova_rt/bin:$PATH
python --version
systemctl --version | head -n 1
echo "libvirt $(virsh --version)"
python -W ignore guarantee.py || {
    journalctl --no-pager -b -u libvirtd -u systemd-machined | tail -n 40
    exit 1
}
# Why it went away, if it did.
journalctl --no-pager -b -u libvirtd | grep -E 'exited|Failed with|abort' || :
export OS_STDOUT_CAPTURE=1 OS_STDERR_CAPTURE=1 OS_LOG_CAPTURE=1
mkdir -p /tmp/stestr && cd /tmp/stestr
top=$(python -P -c 'import nova_rt; print(nova_rt.__path__[0])')
top=${top%/nova_rt}
stestr --test-path "$top/nova_rt/tests/host" --top-dir "$top" run --serial
