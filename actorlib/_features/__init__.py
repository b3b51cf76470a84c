"""Features: what a runtime can do besides running actors and functions.

Each has a folder that can be missing. Modules whose names begin with ``runtime``
attach it to a runtime, in the owner's process. All others may be imported by workers.

* ``runtime``: the features that a runtime can have; a worker's are in
  ``_worker/features.py``.
* ``middleware``: tells users' objects of calls, on both sides.
* ``recording``: records when calls were made and ran, and draws that.
* ``logs``: keeps what workers print and log, for whoever asks.
* ``stacks``: shows where the threads and the tasks of a worker stand.
"""
