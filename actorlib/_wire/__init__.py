"""Everything that crosses a process boundary; both sides of a pipe import it.

In reading order:

* ``messages``: lists the kinds of frames, with their fields.
* ``worker_messages``: checks frames from workers: every kind, field by field.
* ``forkserver_protocol``: lists the requests to the template, and its reports.
* ``codec``: encodes frames to bytes and decodes them, without a socket.
* ``arrays``: encodes arrays of NumPy: dtype and shape, then the bytes.
* ``serialization``: serializes values: by msgpack if it preserves them, else by pickle.
* ``errors``: sends errors: the exceptions of calls, and why a value cannot be sent.
* ``async_channel``: sends and receives frames on an event loop.
* ``blocking_channel``: sends and receives frames on plain threads.
* ``fd_passing``: passes descriptors, and shares segments of memory by them.
* ``peer_socket``: sends and receives frames between two workers over a link.
* ``ordering``: keeps calls in order behind those that wait for their arguments.
* ``call_headers``: makes and reads the headers of calls.
* ``arguments``: encodes arguments, and refs and values inside of values; and a call
  that waits until it can be sent.
* ``function_code``: pickles functions and classes for the processes that run them.
* ``actor_config``: configures a worker for its actor, before anything else.
* ``batches``: runs a batch: many calls of one method that came in one frame.
"""
