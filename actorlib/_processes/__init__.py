"""Starts worker processes, shows their output, and notices their end.

In reading order:

* ``launcher``: the interfaces of launchers and of launched workers.
* ``forkserver_launcher``: launches workers through the template: requests forks, reads
  its reports.
* ``template_process``: starts the process of the template, before other imports.
* ``kept_descriptors``: keeps descriptors open until the workers have ended.
* ``fd_limit``: raises the limit of open files.
* ``worker_output``: shows the output of workers.
* ``signal_wakeup``: wakes the owner's loop for signals, so that Ctrl-C acts at once.
"""
