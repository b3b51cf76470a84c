"""A page that shows what a runtime does, in a browser.

In reading order:

* ``address``: where a page is served: a host and a port.
* ``guard``: who may ask: by the token in the address, and by the host that was meant.
* ``looks``: makes of what a runtime tells what the page shows, with rates.
* ``watch``: looks at a runtime for as long as somebody watches.
* ``questions``: asks about one actor: its stack, its calls, why it waits; or ends it.
* ``application``: what is served where.
* ``uvicorn_server``: has uvicorn serve, without what it does to the program around it.
* ``server``: listens, and serves in a thread of its own.
"""
