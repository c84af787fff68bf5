#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a node of a cloud of a Debian tree, from the inside: accounts, files,
# databases and the message bus's user, with Nova in /opt/nova. Nova's services
# are not enabled: whoever uses the node starts those it needs.

set -euo pipefail

function files {
    local directory
    # The numbers that Debian reserves for Nova.
    groupadd --gid 64060 nova
    useradd --uid 64060 --gid nova --home-dir /var/lib/nova \
        --groups libvirt --shell /usr/sbin/nologin nova
    for directory in /var/lib/nova /var/lib/nova/locks /var/log/nova; do
        install -d -o nova -g nova "$directory"
    done
    install -d -o nova -g nova /etc/nova
    install -m 0640 -o nova -g nova -t /etc/nova /root/node/nova.conf \
        /root/node/nova-compute.conf
    cp -r /opt/nova/etc/nova/. /etc/nova/
    install -m 0644 /root/node/gunicorn.conf.py /var/lib/nova/
    install -m 0644 /root/node/placement.py /usr/local/lib/
    install -d -o nova -g nova /var/lib/nova/instances
    install -m 0440 /root/node/nova-common /etc/sudoers.d/
    install -m 0644 /root/node/*.service /etc/systemd/system/
    systemctl daemon-reload
}

function message_bus {
    rabbitmqctl await_startup
    rabbitmqctl add_user nova SECRET
    rabbitmqctl set_permissions nova '.*' '.*' '.*'
}

function databases {
    local name
    mysql -e "CREATE USER nova@'%' IDENTIFIED BY 'SECRET'"
    for name in nova_api nova_cell0 nova_cell1; do
        mysql -e "CREATE DATABASE $name CHARACTER SET utf8mb4"
        mysql -e "GRANT ALL ON $name.* TO nova@'%'"
    done
    nova_manage api_db sync
    nova_manage cell_v2 map_cell0 --database_connection \
        mysql+pymysql://nova:SECRET@controller/nova_cell0
    nova_manage db sync
    nova_manage cell_v2 create_cell --name=cell1
}

function nova_manage {
    runuser -u nova -- /opt/nova/bin/nova-manage "$@"
}

files
message_bus
databases
