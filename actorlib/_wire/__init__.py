"""Everything that crosses a process boundary; both sides of a pipe import it.

In reading order:

* ``messages``: lists the kinds of frames, with their fields.
* ``worker_messages``: checks frames of workers: every kind, field by field.
* ``forkserver_protocol``: lists the requests to the template, and its reports.
* ``codec``: encodes frames to bytes and decodes them, without touching a socket.
* ``arrays``: puts arrays of NumPy in a payload: dtype and shape, then the bytes.
* ``serialization``: serializes values: by msgpack what that carries faithfully, by
  pickle all else.
* ``errors``: carries errors: what a call raised, and why a value cannot be sent.
* ``async_channel``: sends and receives frames on an event loop.
* ``blocking_channel``: sends and receives frames on plain threads.
* ``fd_passing``: passes descriptors, and by them shares segments of memory.
* ``peer_socket``: carries frames between two workers over a link.
* ``ordering``: keeps calls in order behind those whose arguments are not there yet.
* ``call_headers``: makes and reads what goes with a call besides its arguments.
* ``arguments``: encodes arguments, and values and refs that travel inside of values.
* ``call``: holds a call that waits for its arguments, or behind one that does.
* ``function_code``: pickles functions and classes for the processes that run them.
* ``actor_config``: configures a worker for its actor, before anything else.
* ``batches``: runs a batch: many calls of one method that came in one frame.
"""
