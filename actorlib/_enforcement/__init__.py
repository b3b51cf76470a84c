"""Enforcement: what makes a lease hold, beyond the promise to keep to it.

A visibility mask decides which devices a process sees. How much of the machine it
takes is for frameworks, drivers and kernels to limit, whoever the vendor is; each way
of limiting is a room here, and none of them decides who gets what.

The rooms, in reading order:

* ``caps``: environment variables by which libraries keep to a number of threads.
"""
