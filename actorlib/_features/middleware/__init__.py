"""Tells middlewares of calls; ``actorlib.observe`` explains them to users.

In reading order:

* ``middlewares``: tells middlewares, and keeps calls from what those raise.
* ``observed_calls``: makes calls that middlewares are told of, at their caller.
* ``runtime``: adds middlewares to a runtime and removes them, and hears what ran.
* ``worker``: tells middlewares of calls that run in a worker, and the owner of each.
"""
