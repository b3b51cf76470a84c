"""Starts worker processes, reads what they print, sees how they end.

In reading order:

* ``launcher``: where workers come from: a Protocol, and what every launched worker
  offers.
* ``forkserver_launcher``: the owner's side of the template: requests out, reports in.
* ``last_words``: the last that a process said on its standard error, as far as it tells
  a user.
* ``worker_output``: what workers print: shown line by line, and the last of it
  remembered.
* ``signal_wakeup``: wakes the owner's loop for signals, so that no Ctrl-C waits for
  something else.
"""
