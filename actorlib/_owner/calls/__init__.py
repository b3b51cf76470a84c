"""Calls without an answer: in order, out, back, again.

In reading order:

* ``call_table``: keeps the calls that have no answer: whom each is for, since when.
* ``calls_under_way``: tells which of an actor's calls run, from those that have no
  answer.
* ``mailbox``: decides which calls of one actor go to its worker, and which go again.
* ``router``: the way to one worker and back; routes an actor's calls: out in order, and
  their answers and items back.
* ``call_policy``: says of each call of an actor how often it is sent again, and until
  when it may take.
* ``deadlines``: deadlines of calls: whose time is over, told by one timer.
* ``response_target``: keeps calls that await answers, of actors and of functions, and
  gives those to the callers: the owner's code, or a worker.
* ``submission``: calls on their way out, with their arguments and in order.
* ``link_callers``: knows who calls one actor over links, and tells them of its end.
"""
