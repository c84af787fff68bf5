# SPDX-License-Identifier: Apache-2.0
"""Reservations (Q, P) from the needs of a service, and back.

Pure: no Nova, no files, no clock. Times are in seconds, rates in 1/s and
sizes in bits, all floats, except where a name says otherwise. Q and P of a
reservation are integers, rounded up. The manual's page "Formulas and their
validity" explains the symbols.

The modules, each above those that it imports:

- ``units``: quantities as people write them; ``inputs``: their checks;
- ``roots``: the boundary between too little and enough;
- ``nearest``: the nearest possible request, for a refusal;
- ``response``: the base of all models of response times;
- ``single``, ``tandem``, ``general``, ``many``, ``split``, ``trace``: the
  models;
- ``supply``: the least that (Q, P) supplies; ``guarantee``: bounds that always
  hold; ``limits``: the range of (Q, P); ``periods``: the choice of P;
  ``sizing``: from a model and a deadline to a reservation; ``questions``:
  from a reservation back; ``service`` and ``services``: the choice of a model;
- ``sample``: measured CPU times; ``planner``: placement of servers;
- ``schedule``, ``simulation``, ``cbs``, ``edf``, ``confidence``: the
  scheduler, simulated, and confidence intervals; ``judged``: comparison with
  the fluid CPU.
"""
