"""The errors, by the names of actorlib and of Ray."""

from actorlib.exceptions import *  # noqa: F403  # all of them
from actorlib.exceptions import (
    ActorError,
    ActorlibError,
    PlacementGroupRemovedError,
    TaskCancelledError,
    TaskError,
)

RayError = ActorlibError
RayTaskError = TaskError
RayActorError = ActorError
# Ray raises this for functions, and for ready() of a group that was removed.
TaskPlacementGroupRemoved = PlacementGroupRemovedError  # type: ignore[assignment, misc]  # in the place of ours


class RayTaskCancelledError(TaskCancelledError, TaskError):
    """A call was cancelled; scripts of Ray catch it as RayTaskError."""


class NeverRaised(ActorlibError):  # noqa: N818  # it is never raised
    """Stands for errors of Ray that actorlib does not raise; scripts may name them."""


# An invalid runtime_env raises ValueError or NotADirectoryError where it is written.
AsyncioActorExit = NeverRaised
NodeDiedError = NeverRaised
ObjectFreedError = NeverRaised
ObjectReconstructionFailedError = NeverRaised
OutOfDiskError = NeverRaised
RaySystemError = NeverRaised
RuntimeEnvSetupError = NeverRaised
