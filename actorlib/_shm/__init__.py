"""The object store: large values in shared memory.

In reading order:

* ``layout``: how values lie in shared memory: ids of blocks, where buffers begin.
* ``allocator``: allocates blocks in a segment, first fit, and frees them.
* ``mapping``: maps parts of files, without a descriptor for each.
* ``views``: views of mapped memory, read-only ones and private copies.
* ``running_calls``: which calls of an actor run, noted for when its process is gone.
* ``segments``: segments of shared memory: anonymous files, handed from one process to
  another; and the budget that all of them share.
* ``store``: the segments of one process, and the blocks allocated in them.
* ``fd_reserve``: a descriptor in reserve, for when a process may open no more.
* ``memory``: shares large values: copied in once, and read where they lie; and the
  payloads of frames, which may point there.
"""
