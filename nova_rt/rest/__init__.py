# SPDX-License-Identifier: Apache-2.0
"""nova-rt-api: the reservations of a cloud over HTTP.

A call is an entry in the table of ``operations``: its route, schemas, policy
rules and function. The routes of ``app`` and the document of ``openapi`` are
made of this table.
"""
