"""The errors, by our names and by Ray's."""

from actorlib.exceptions import *  # noqa: F403  # all that there are
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


class NeverRaised(ActorlibError):  # noqa: N818  # it is none
    """What Ray may raise and nothing here does, so that scripts may catch it."""


# An impossible runtime_env raises ValueError or NotADirectoryError where it is written.
AsyncioActorExit = NeverRaised
NodeDiedError = NeverRaised
ObjectFreedError = NeverRaised
ObjectReconstructionFailedError = NeverRaised
OutOfDiskError = NeverRaised
RaySystemError = NeverRaised
RuntimeEnvSetupError = NeverRaised
