"""Calls middlewares; ``actorlib.observe`` explains them to users.

In reading order:

* ``middlewares``: calls middlewares, and handles their errors.
* ``observed_calls``: makes calls with middlewares, on the caller's side.
* ``runtime``: adds middlewares to a runtime and removes them; receives runs.
* ``worker``: calls middlewares for runs in a worker, and reports them to the owner.
"""
