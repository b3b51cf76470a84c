"""The engine of a program that is attached to a runtime of another process.

It speaks to the owner as a worker does, over a socket of its own.

* ``connection``: finds a runtime by its name, and is let in.
* ``engine``: fulfils the verbs of an engine there.
"""
