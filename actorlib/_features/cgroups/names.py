"""Names of the cgroups of one program, by which whoever finds one knows whose it is.

Each is ``actorlib-PID-BEGAN-`` and what it is for: ``owner``, or a name of a runtime's
and a number for a worker. The first two are the owner's process id and when it began,
in ticks of the kernel's clock.
"""

PREFIX = "actorlib-"
OWNER = "-owner"
"""The end of the name of the cgroup where the owner is, and all that has no limits."""
DEVICES = "-devices"
"""The end of the names of those for which a driver keeps memory of a device: it has to
be told before they are removed."""
