"""Everything that crosses a process boundary; both sides of a pipe import it.

In reading order:

* ``messages``: the kinds of frames between the owner and one worker, with their fields.
* ``worker_messages``: checks frames of workers: every kind, field by field.
* ``forkserver_protocol``: the protocol between the owner and the template.
* ``codec``: frames to bytes and back, without touching a socket.
* ``arrays``: arrays of NumPy in a payload: a header of dtype and shape, and the bytes.
* ``serialization``: objects to bytes and back: msgpack for what it carries faithfully,
  pickle else.
* ``errors``: sends exceptions and answers, and says what cannot be sent.
* ``async_channel``: sends and receives frames on an event loop.
* ``blocking_channel``: sends and receives frames on plain threads.
* ``fd_passing``: passes descriptors, and shares segments over one pipe with them.
* ``peer_socket``: carries frames between two workers over a link.
* ``ordering``: keeps calls in order behind those whose arguments are not there yet.
* ``call_headers``: headers of calls: what goes with one besides its arguments.
* ``arguments``: encodes arguments, and values and refs that travel inside of values.
* ``call``: a call that is not sent yet: it waits for its arguments, or behind one that
  does.
* ``function_code``: pickles functions and classes for the processes that run them.
* ``actor_config``: what a worker is told of its actor before anything else.
* ``batches``: runs a batch: many calls of one method that came in one frame.
"""
