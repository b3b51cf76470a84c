"""The plugin for pytest, which every pytest run of a user loads.

* ``plugin``: the options and the fixtures. It loads the rest when a fixture is used.
* ``items``: the properties of one test: its engine, its loop, its outcome.
* ``on_loops``: the parts of the fixtures of async tests that run on the test's loop.
* ``leaks``: the actors, calls, refs, objects and groups that a test has left behind.
"""
