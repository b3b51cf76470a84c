"""The engine of a program that is attached to a runtime of another process.

It talks to the owner like a worker, over a socket of its own.

* ``connection``: finds a runtime by its name, and connects to it.
* ``engine``: implements the operations of an engine there.
"""
