"""Calls without an answer: their order, their way to a worker and back, and retries.

In reading order:

* ``call_table``: the calls that have no answer: the recipient and the time of each.
* ``calls_under_way``: which of an actor's unanswered calls run.
* ``mailbox``: decides which calls of one actor are sent to its worker, and which again.
* ``router``: the way to one worker and back; routes an actor's calls, their answers and
  their items.
* ``call_policy``: retries and deadlines of an actor's calls.
* ``deadlines``: deadlines of calls, by one timer.
* ``response_target``: calls that await answers, of actors and of functions, and the
  delivery of answers to the owner's code or to a worker.
* ``submission``: encodes and sends the owner's calls in order.
* ``link_callers``: the workers that call one actor over links.
"""
