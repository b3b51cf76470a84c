"""Starts worker processes, shows what they print, sees how they end.

In reading order:

* ``launcher``: says what the owner asks of a launcher and of every launched worker.
* ``forkserver_launcher``: launches workers by the template: asks it to fork and to
  kill, reads its reports.
* ``template_process``: starts the process of the template, before all else is imported.
* ``fd_limit``: raises the limit of open files.
* ``worker_output``: shows what workers print.
* ``signal_wakeup``: wakes the owner's loop for signals, so that no Ctrl-C waits for
  something else.
"""
