"""Calls without an answer: their order, their way to a worker and back, and retries.

In reading order:

* ``call_table``: the calls that have no answer: the recipient, the time and the state
  of each.
* ``mailbox``: decides which calls of one actor are sent to its worker, and which again.
* ``router``: the way to one worker and back; routes an actor's calls, their answers and
  their items.
* ``response_target``: calls that await answers, of actors and of functions: their
  deadlines, and the delivery of answers to the owner's code or to a worker.
* ``submission``: encodes and sends the owner's calls in order.
* ``link_callers``: the workers that call one actor over links.
"""
