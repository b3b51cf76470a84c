"""The errors, by the names of actorlib and of Ray."""

from actorlib.exceptions import *  # noqa: F403  # all of them
from actorlib.exceptions import (
    ActorError,
    ActorlibError,
    PlacementGroupRemovedError,
    TaskError,
)

RayError = ActorlibError
RayTaskError = TaskError
RayActorError = ActorError
# Ray raises this for functions, and for ready() of a group that was removed.
TaskPlacementGroupRemoved = PlacementGroupRemovedError  # type: ignore[assignment, misc]  # in the place of ours


class NeverRaised(ActorlibError):  # noqa: N818  # it is never raised
    """Stands for errors of Ray that actorlib does not raise; scripts may name them."""


# ActorDiedError.exit reports a process that the kernel killed for memory. An invalid
# runtime_env raises ValueError or NotADirectoryError where it is written.
AsyncioActorExit = NeverRaised
NodeDiedError = NeverRaised
ObjectFreedError = NeverRaised
ObjectReconstructionFailedError = NeverRaised
OutOfDiskError = NeverRaised
OutOfMemoryError = NeverRaised
RaySystemError = NeverRaised
RuntimeEnvSetupError = NeverRaised
