"""The plugin for pytest, which every pytest run of a user's loads.

* ``plugin``: the options and the fixtures. It loads the rest when a fixture is used.
* ``items``: what is said of one test: its engine, its loop, and how it has ended.
* ``on_loops``: what the fixtures of async tests do, on the loop of the test.
* ``leaks``: what a test has left of actors, calls, refs, objects and groups.
"""
