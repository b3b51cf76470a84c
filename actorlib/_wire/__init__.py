"""The agreement between two processes; both sides of a pipe stand on these rooms.

In reading order:

* ``frames``: the closed list of messages.
* ``upward``: those that a worker may send, field by field, and the check of them.
* ``codec``: frames to bytes and back, without a socket.
* ``payload``: objects to bytes and back: msgpack first, cloudpickle else.
* ``blocks``, ``exports``, ``mapping``, ``segments``, ``store``: which bytes of a
  segment are whose; parts of one that say when they are gone; how a part of a file is
  mapped; memory that processes share; what one process has made of it.
* ``private``, ``tensors``: parts of it that may be written, copied where they are;
  PyTorch's tensors over such memory.
* ``shared``, ``memory``: a payload that lies there; what a process has made and was
  shown.
* ``side``, ``reserve``, ``showing``: the way that descriptors take; how memory is
  spoken of on a pipe.
* ``channel``: one end of the pipe on an event loop.
* ``pipe``: one end of the pipe on a plain thread.
* ``link``: one end of the socket pair between two workers.
* ``answers``, ``blame``: what came back, and which value could not go.
* ``lanes``: order behind calls whose arguments are not there yet.
* ``control``: what the owner asks of the template, and what it reports.
"""
