"""What tests of several rooms share: fakes that behave, and no mocks.

* ``host``: a recorded machine, and NVML on it.
* ``engine``: an engine without processes.
"""
