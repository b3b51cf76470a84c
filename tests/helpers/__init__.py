"""What tests of several rooms share: fakes that behave, and no mocks.

* ``host``: a recorded machine.
* ``nvml``: NVML as it answers there.
* ``engine``: an engine without processes.
* ``turns``: turns of the event loop, counted instead of slept.
"""
