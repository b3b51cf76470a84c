"""The object store: large values in shared memory.

In reading order:

* ``allocator``: which bytes of a segment are whose: blocks are taken, given back, and
  taken again.
* ``payload``: A payload that lies in memory which its receiver has too.
* ``mapping``: A mapping of a part of a file, made by hand.
* ``fd_reserve``: A descriptor in reserve.
* ``segments``: memory that processes share: anonymous files, handed from one to the
  other.
* ``views``: parts of mapped memory as views that say when the last one of them is gone.
* ``store``: the memory that one process shares with others: it copies values in, others
  read.
* ``memory``: large values in shared memory: copied in once, and read where they lie.
"""
