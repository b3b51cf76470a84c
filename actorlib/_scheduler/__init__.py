"""The scheduler decides which request gets which devices, and in which order.

All decisions are pure; only waiting needs an event loop. In reading order:

* ``request``: a request for a lease: how much, of which devices, for whom.
* ``catalogue``: resolves the user's options to a request.
* ``scheduler``: the entry point: acquires and releases leases.
* ``admission``: admits requests to the ledger, at once or in the order of the queue.
* ``ledger``: records leases: every unit and byte is free or in exactly one lease.
* ``device_use``: the interface by which the ledger asks for devices of other programs.
* ``device_pool``: chooses devices: best fit, lowest index first.
* ``free_buckets``: the devices of one model by their free units, found in two look-ups.

A plain request enters only these. With constraints, or if other requests wait:

* ``candidates``: resolves device constraints: which devices a request may get at all.
* ``topology``: finds devices that belong together: linked ones, aligned runs of
  numbers.
* ``waiting_order``: the order of the requests that wait, by priority and arrival.
* ``wait_queue``: serves them in that order, where that makes a difference.
* ``overtaking``: whether a later request delays earlier ones for a counted resource.
* ``long_waits``: logs each long wait for a lease once.
* ``explain``: describes for users why a request is granted, waits, or can never be
  granted.

For placement groups:

* ``placement_group``: groups: reserved as one, used by their members, given back as
  one.
* ``bundles``: grants parts of a reserved group to the actors and functions inside.
* ``bundle_arrangement``: arranges the bundles of a group on devices, all or none.
* ``bundle_packing``: packs bundles that may share a device: a search, device by device.
* ``bundle_spreading``: spreads bundles over as many devices as possible.
* ``backtracking``: the depth-first search that packing and spreading use.
"""
