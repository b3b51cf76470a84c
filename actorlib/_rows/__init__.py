"""The rows and tables that describe a runtime to people.

In reading order:

* ``tables``: formats rows for people: lines of text, tables with columns.
* ``rows``: encodes rows as plain values, for sockets and documents, and decodes them.
* ``snapshot``: the state of a runtime at one moment, as rows.
"""
