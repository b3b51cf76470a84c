"""Information about a runtime.

In reading order:

* ``inspection``: the rows about actors and calls.
* ``inquiries``: asks workers, and waits a limited time for busy ones.
"""
