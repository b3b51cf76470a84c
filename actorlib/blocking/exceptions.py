"""The errors, by our names and by Ray's."""

from actorlib.exceptions import *  # noqa: F403  # all that there are
from actorlib.exceptions import (
    ActorError,
    ActorlibError,
    TaskCancelledError,
    TaskError,
)

RayError = ActorlibError
RayTaskError = TaskError
RayActorError = ActorError


class RayTaskCancelledError(TaskCancelledError, TaskError):
    """A call was cancelled; scripts of Ray catch it as RayTaskError."""


class NeverRaised(ActorlibError):  # noqa: N818  # it is none
    """What Ray may raise and nothing here does, so that scripts may catch it."""


# A process that the kernel killed for memory is told by ActorDiedError.exit, what a
# runtime_env asks for in vain by ValueError or NotADirectoryError where it is written.
AsyncioActorExit = NeverRaised
NodeDiedError = NeverRaised
ObjectFreedError = NeverRaised
ObjectReconstructionFailedError = NeverRaised
OutOfDiskError = NeverRaised
OutOfMemoryError = NeverRaised
OwnerDiedError = NeverRaised
RaySystemError = NeverRaised
RuntimeEnvSetupError = NeverRaised
