# SPDX-License-Identifier: Apache-2.0
# How the node serves nova-api. Not by gunicorn's arguments: Nova would read
# them as its own.
bind = '127.0.0.1:8774'
threads = 4
wsgi_app = 'nova.wsgi.osapi_compute:application'
