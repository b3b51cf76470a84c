"""What is known of a runtime, for whoever asks.

In reading order:

* ``inspection``: what is known of actors and calls, for who asks.
* ``inquiries``: asks workers what only they know, and waits for no busy one.
* ``log_tail``: cuts the last lines of standard error down to what helps a user.
"""
