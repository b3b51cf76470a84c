"""A page that shows what a runtime does, in a browser.

In reading order:

* ``address``: the host and port of a page.
* ``guard``: authorizes requests by the token in the address and by the host.
* ``looks``: converts samples of a runtime to the content of the page, with rates.
* ``watch``: takes samples while a page is open.
* ``questions``: queries about one actor: its stack, calls, logs, placement; kills it.
* ``application``: the routes.
* ``uvicorn_server``: runs uvicorn without its effects on the program.
* ``server``: listens, and serves in a thread of its own.
"""
