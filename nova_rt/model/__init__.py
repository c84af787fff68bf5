# SPDX-License-Identifier: Apache-2.0
"""From what a service needs to a reservation (Q, P), and back.

Pure: no Nova, no files, no clock. Times are in seconds, rates in 1/s and
sizes in bits, all floats, except where a name says otherwise. What becomes a
reservation is an integer, rounded up. The manual's page "Formulas and their
validity" explains the symbols.

The modules, each above those that it imports:

- ``units``: quantities as people write them; ``inputs``: what is no quantity;
- ``roots``: the boundary between what is not enough and what is;
- ``nearest``: what can be had instead of what cannot;
- ``response``: what all models of response times have in common;
- ``single``, ``tandem``, ``constant``, ``measured``, ``many``, ``chain``,
  ``balanced``: the models;
- ``supply``: what (Q, P) gives at least; ``guarantee``: bounds that hold
  always; ``limits``: what (Q, P) can be; ``periods``: which P is the best;
  ``sizing``: from a model and a deadline to a reservation; ``questions``:
  from a reservation back; ``services``: which model answers;
- ``goodness``: service times that were measured; ``planner``: where servers
  go;
- ``schedule``, ``simulation``, ``cbs``, ``edf``, ``confidence``: the
  scheduler, simulated, and how sure its numbers are; ``judged``: held against
  the fluid CPU.
"""
