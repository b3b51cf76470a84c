"""What tests of several rooms share: fakes that behave, and no mocks.

* ``host``: a recorded machine.
* ``cgroups``: a kernel with cgroups that is not here, and its quirks.
* ``nvml``: NVML as it answers there.
* ``engine``: an engine without processes.
* ``invariants``: what always holds of the owner's tables.
* ``deadlines``: actors that work until their time is over.
* ``turns``: turns of the event loop, counted instead of slept.
"""
