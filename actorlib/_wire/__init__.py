"""Everything that crosses a process boundary; both sides of a pipe import it.

In reading order:

* ``messages``: the whole vocabulary of the pipe between the owner and one worker.
* ``worker_messages``: what a worker may send: every frame that rises, field by field.
* ``forkserver_protocol``: what the owner asks of the template, and what the template
  reports.
* ``codec``: frames to bytes and back, without touching a socket.
* ``serialization``: objects to bytes and back: msgpack for what it carries faithfully,
  pickle else.
* ``errors``: an answer that crossed a process: what arrived is given or raised as it
  was meant.
* ``async_channel``: one end of the pipe on an event loop: frames out, frames in, the
  end noticed.
* ``blocking_channel``: one end of the pipe on a plain thread: blocking reads, gathered
  writes.
* ``fd_passing``: the way that descriptors take between two processes: a socket beside
  their pipe.
* ``peer_socket``: one end of a link: a socket pair between a worker and another that it
  calls often.
* ``ordering``: order behind calls whose arguments are not there yet.
* ``call_headers``: what a caller says of one call besides its arguments, as it is when
  it is made.
* ``arguments``: the arguments of one call, as they were when it was made.
* ``call``: a call that is not sent yet: it waits for its arguments, or behind one that
  does.
* ``function_code``: the code of a function or a class on its way to the processes that
  run it.
* ``actor_config``: what a worker is told of its actor before anything else.
* ``batches``: A chunk of calls that came in one frame: the method is called for each of
  them.
"""
