"""Who gets which devices, in which order, and why not.

What decides is pure; only waiting needs an event loop. In reading order:

* ``request``: what a request wishes of its devices, beyond their number.
* ``catalogue``: an actor's options become a demand: what is asked, and which devices
  are wished for.
* ``device_pool``: which devices a request gets: best fit, lowest index first, and what
  it wishes.
* ``free_levels``: devices of one make by what they have free, found in two look-ups.
* ``topology``: which devices belong together: linked ones, and aligned runs of numbers.
* ``ledger``: who holds what: every unit and byte of the machine is free or in exactly
  one lease.
* ``wait_queue``: who may go next: first come, first served, where it makes a
  difference.
* ``admission``: waits in line until the ledger can say yes.
* ``scheduler``: who gets which share of a machine, and who waits for one.
* ``long_waits``: says in the log, once, who has waited for a share for long, and who
  has it.
* ``bundles``: the bundles of a group that has its shares: each a pool of its own.
* ``bundle_arrangement``: which devices the bundles of a gang get, all of them or none.
* ``bundle_packing``: where shares of different sizes find room: a search, device after
  device.
* ``bundle_spreading``: where bundles lie apart: each on a device of its own, or as many
  as can be.
* ``placement_group``: one placement group: reserved as one, lived in, given back as
  one.
* ``explain``: why a request is granted, waits, or never will be, in sentences for the
  user.
"""
