"""Completion codes and types of the end of an attempt (docs/reference/framework-api.md, section 6)."""

from enum import IntEnum, StrEnum
from typing import Final

from frameworkcontroller.api.status import CompletionType


class TypeName(StrEnum):
    """Whether an attempt succeeded."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Attribute(StrEnum):
    """What is known about a failure."""

    TRANSIENT = "Transient"
    CONFLICT = "Conflict"
    PERMANENT = "Permanent"


class Code(IntEnum):
    """The predefined codes. Others come from `podFailureSpec` or are a container's own exit code."""

    SUCCEEDED = 0
    CONTAINER_TRANSIENT_FAILED = 200
    CONTAINER_TRANSIENT_CONFLICT_FAILED = 201
    CONTAINER_PERMANENT_FAILED = 210
    CONFIG_MAP_EXTERNAL_DELETED = -100
    POD_EXTERNAL_DELETED = -101
    CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT = -110
    POD_LOCAL_CACHE_CREATION_TIMEOUT = -111
    POD_CREATION_TRANSIENT_ERROR = -120
    POD_CREATION_PERMANENT_ERROR = -200
    STOP_FRAMEWORK_REQUESTED = -210
    FRAMEWORK_ATTEMPT_COMPLETION = -220
    DELETE_TASK_REQUESTED = -230
    FRAMEWORK_DEADLINE_EXCEEDED = -240
    """An addition of this controller, as the next six."""
    FRAMEWORK_SUSPENDED = -250
    FRAMEWORK_PREEMPTED = -260
    GANG_HUNG = -270
    GANG_HUNG_REPEATEDLY = -275
    TASK_HUNG = -280
    TASK_MOVED = -290
    POD_FAILED_WITHOUT_FAILED_CONTAINER = -300
    POD_CREATION_UNKNOWN_ERROR = -310


SUCCEEDED: Final = CompletionType(name=TypeName.SUCCEEDED, attributes=())
FAILED: Final = CompletionType(name=TypeName.FAILED, attributes=())
TRANSIENT: Final = CompletionType(name=TypeName.FAILED, attributes=(Attribute.TRANSIENT,))
TRANSIENT_CONFLICT: Final = CompletionType(name=TypeName.FAILED, attributes=(Attribute.TRANSIENT, Attribute.CONFLICT))
PERMANENT: Final = CompletionType(name=TypeName.FAILED, attributes=(Attribute.PERMANENT,))

PREDEFINED: Final[dict[Code, tuple[str, CompletionType]]] = {
    Code.SUCCEEDED: ("Succeeded", SUCCEEDED),
    Code.CONTAINER_TRANSIENT_FAILED: ("ContainerTransientFailed", TRANSIENT),
    Code.CONTAINER_TRANSIENT_CONFLICT_FAILED: ("ContainerTransientConflictFailed", TRANSIENT_CONFLICT),
    Code.CONTAINER_PERMANENT_FAILED: ("ContainerPermanentFailed", PERMANENT),
    Code.CONFIG_MAP_EXTERNAL_DELETED: ("ConfigMapExternalDeleted", TRANSIENT),
    Code.POD_EXTERNAL_DELETED: ("PodExternalDeleted", TRANSIENT),
    Code.CONFIG_MAP_LOCAL_CACHE_CREATION_TIMEOUT: ("ConfigMapLocalCacheCreationTimeout", TRANSIENT),
    Code.POD_LOCAL_CACHE_CREATION_TIMEOUT: ("PodLocalCacheCreationTimeout", TRANSIENT),
    Code.POD_CREATION_TRANSIENT_ERROR: ("PodCreationTransientError", TRANSIENT),
    Code.POD_CREATION_PERMANENT_ERROR: ("PodCreationPermanentError", PERMANENT),
    Code.STOP_FRAMEWORK_REQUESTED: ("StopFrameworkRequested", PERMANENT),
    Code.FRAMEWORK_ATTEMPT_COMPLETION: ("FrameworkAttemptCompletion", PERMANENT),
    Code.DELETE_TASK_REQUESTED: ("DeleteTaskRequested", PERMANENT),
    Code.FRAMEWORK_DEADLINE_EXCEEDED: ("FrameworkDeadlineExceeded", PERMANENT),
    Code.FRAMEWORK_SUSPENDED: ("FrameworkSuspended", TRANSIENT),
    Code.FRAMEWORK_PREEMPTED: ("FrameworkPreempted", TRANSIENT),
    Code.GANG_HUNG: ("GangHung", TRANSIENT),
    Code.GANG_HUNG_REPEATEDLY: ("GangHungRepeatedly", PERMANENT),
    Code.TASK_HUNG: ("TaskHung", TRANSIENT),
    Code.TASK_MOVED: ("TaskMoved", TRANSIENT),
    Code.POD_FAILED_WITHOUT_FAILED_CONTAINER: ("PodFailedWithoutFailedContainer", FAILED),
    Code.POD_CREATION_UNKNOWN_ERROR: ("PodCreationUnknownError", FAILED),
}
UNRECOGNIZED_PHRASE: Final = "ContainerUnrecognizedFailed"

# No retry policy undoes an end that a user asked for, or of a gang that would hang again.
NEVER_RETRIED: Final = frozenset(
    {
        Code.STOP_FRAMEWORK_REQUESTED,
        Code.FRAMEWORK_ATTEMPT_COMPLETION,
        Code.DELETE_TASK_REQUESTED,
        Code.FRAMEWORK_DEADLINE_EXCEEDED,
        Code.GANG_HUNG_REPEATEDLY,
    }
)

# Always retried, and no retry policy counts it: the attempt has not failed.
WITHOUT_COUNT: Final = frozenset({Code.FRAMEWORK_SUSPENDED, Code.FRAMEWORK_PREEMPTED, Code.TASK_MOVED})


def is_reserved(code: int) -> bool:
    """Report whether `podFailureSpec` must not use this code."""
    return 200 <= code <= 219 or -999 <= code <= 0
