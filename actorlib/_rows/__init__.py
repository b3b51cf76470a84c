"""What people are shown of a runtime: rows and tables.

In reading order:

* ``tables``: makes what people see of rows: lines of text, tables of columns.
* ``rows``: encodes rows as plain values, for sockets and documents, and decodes them.
* ``snapshot``: the state of a runtime at one moment, as rows.
"""
