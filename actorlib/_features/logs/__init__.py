"""Keeps what workers print and log, and passes records to the program's loggers.

In reading order:

* ``runtime``: attaches the logs to a runtime.
* ``runtime_lines``: keeps the last lines and log records of each actor.
* ``runtime_records``: passes the log records of workers to the program's loggers.
* ``worker``: the log handler of a worker.
* ``worker_records``: sends its records to the owner, within a budget.
"""
