"""The object store: large values in shared memory.

In reading order:

* ``layout``: the ids of blocks, and the positions of buffers in a block.
* ``allocator``: allocates blocks in a segment, first fit, and frees them.
* ``mapping``: maps parts of files, without a descriptor for each.
* ``views``: views of mapped memory: read-only views and private copies.
* ``running_calls``: records which calls of an actor run, for the end of its process.
* ``segments``: segments of shared memory: anonymous files that one process sends to
  another; and the budget of all of them.
* ``store``: the segments of one process, and the blocks allocated in them.
* ``memory``: shares large values: copied in once, and read in place; and the payloads
  of frames, which may refer to shared memory.
"""
