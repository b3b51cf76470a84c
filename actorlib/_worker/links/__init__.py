"""Calls between workers without the owner.

In reading order:

* ``outgoing_links``: calls actors over links, and chooses the route of each call.
* ``incoming_links``: serves callers over links.
"""
