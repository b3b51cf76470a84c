"""Keeps what workers print and log, and gives records to the program's loggers.

In reading order:

* ``runtime``: attaches the logs to a runtime.
* ``runtime_lines``: keeps the last lines and log records of each actor.
* ``runtime_records``: gives the log records of workers to the program's loggers.
* ``worker``: takes what is logged in a worker.
* ``worker_records``: sends that to the owner, within a budget.
"""
