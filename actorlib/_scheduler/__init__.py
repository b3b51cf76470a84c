"""The scheduler: who gets which devices, in which order, and why not.

What decides is pure; only waiting needs an event loop. In reading order:

* ``request``: a request for a lease: how much, of which devices, with which priority.
* ``catalogue``: resolves what the user wrote to what a request says.
* ``scheduler``: the one server: a request goes in, a lease comes out and is given back.
* ``admission``: admits requests to the ledger, at once or in the order of the queue.
* ``ledger``: keeps the books: every unit and byte is free or in exactly one lease.
* ``device_pool``: chooses devices: best fit, lowest index first.
* ``free_buckets``: devices of one model by what they have free, found in two look-ups.

That is all that a plain request enters. Where there are constraints, or others wait:

* ``candidates``: resolves device constraints: which devices a request may get at all.
* ``topology``: finds devices that belong together: linked ones, aligned runs of
  numbers.
* ``wait_queue``: first come, first served, where that makes a difference.
* ``overtaking``: whether a later request delays earlier ones for a counted resource.
* ``long_waits``: logs once who has waited for a lease for long.
* ``explain``: why a request is granted, waits, or never will be: sentences for users.

For placement groups:

* ``placement_group``: groups: reserved as one, lent to those inside, given back as one.
* ``bundles``: lends the bundles of a reserved group to the actors and functions inside.
* ``bundle_arrangement``: arranges the bundles of a group on devices, all or none.
* ``bundle_packing``: packs bundles that may share a device: a search, device by device.
* ``bundle_spreading``: spreads bundles: each on a device of its own, or as many as can
  be.
* ``backtracking``: the depth-first search that both are.
"""
