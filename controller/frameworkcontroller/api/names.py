"""Every name that other programs rely on, in one place (docs/reference/framework-api.md, sections 1 and 4)."""

import hashlib
from typing import Final

GROUP: Final = "frameworkcontroller.microsoft.com"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "Framework"
PLURAL: Final = "frameworks"
CRD_NAME: Final = f"{PLURAL}.{GROUP}"
DISCOVERY_PATH: Final = f"/apis/{API_VERSION}"
NAME_PATTERN: Final = r"^[a-z0-9]{1,63}$"
MAX_LABEL: Final = 63
"""Characters of a label's value."""

# Keys of annotations, labels and environment variables alike.
FRAMEWORK_NAMESPACE: Final = "FC_FRAMEWORK_NAMESPACE"
FRAMEWORK_NAME: Final = "FC_FRAMEWORK_NAME"
TASKROLE_NAME: Final = "FC_TASKROLE_NAME"
TASK_INDEX: Final = "FC_TASK_INDEX"
CONFIGMAP_NAME: Final = "FC_CONFIGMAP_NAME"
POD_NAME: Final = "FC_POD_NAME"
FRAMEWORK_UID: Final = "FC_FRAMEWORK_UID"
FRAMEWORK_ATTEMPT_ID: Final = "FC_FRAMEWORK_ATTEMPT_ID"
FRAMEWORK_ATTEMPT_INSTANCE_UID: Final = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"
CONFIGMAP_UID: Final = "FC_CONFIGMAP_UID"
TASKROLE_UID: Final = "FC_TASKROLE_UID"
TASK_UID: Final = "FC_TASK_UID"
TASK_ATTEMPT_ID: Final = "FC_TASK_ATTEMPT_ID"
# Environment variables only: known when the container starts.
POD_UID: Final = "FC_POD_UID"
TASK_ATTEMPT_INSTANCE_UID: Final = "FC_TASK_ATTEMPT_INSTANCE_UID"

POD_ANNOTATIONS: Final = (
    FRAMEWORK_NAMESPACE,
    FRAMEWORK_NAME,
    TASKROLE_NAME,
    TASK_INDEX,
    CONFIGMAP_NAME,
    POD_NAME,
    FRAMEWORK_UID,
    FRAMEWORK_ATTEMPT_ID,
    FRAMEWORK_ATTEMPT_INSTANCE_UID,
    CONFIGMAP_UID,
    TASKROLE_UID,
    TASK_UID,
    TASK_ATTEMPT_ID,
)
POD_LABELS: Final = (FRAMEWORK_NAME, TASKROLE_NAME, TASK_INDEX)
# Written as {{NAME}} in any string of a Pod template.
PLACEHOLDERS: Final = (FRAMEWORK_NAMESPACE, FRAMEWORK_NAME, TASKROLE_NAME, TASK_INDEX, CONFIGMAP_NAME, POD_NAME)

FOREGROUND_FINALIZER: Final = "foregroundDeletion"

# The version of the controller that created a Pod: the injector compares it with that of the barrier.
CONTROLLER_VERSION: Final = f"{GROUP}/controller-version"

NOT_AVOIDED: Final = f"{GROUP}/not-avoided"
"""Of a Pod that may go to nodes on which its gang hung: why."""

RETAINED_LABEL: Final = f"{GROUP}/retained"
"""Of a Pod that has ended and that the controller has let go, for its logs."""

HISTORY_FINALIZER: Final = f"{GROUP}/history"
"""Of a Framework that stays until the archive (`frameworkhistory`) has its last state."""

GANG_LABEL: Final = f"{GROUP}/gang"
"""Of the ConfigMap with the roster of a gang of another controller: the kind of that gang's owner."""

# The barrier: the label that asks for it, the settings by which it waits for arrival, and the roster that it reads.
BARRIER_LABEL: Final = f"{GROUP}/barrier"
BARRIER_CONTAINER: Final = "frameworkbarrier"
BARRIER_WAIT_FOR: Final = "FB_WAIT_FOR"
BARRIER_WAIT_FOR_FLAG: Final = "--wait-for"
BARRIER_WAIT_FOR_ANNOTATION: Final = f"barrier.{GROUP}/wait-for"
ARRIVED: Final = "arrived"
# The files of a job: the annotation that names their ConfigMap, its key, and where the application finds them.
CODE_ANNOTATION: Final = f"barrier.{GROUP}/code"
CODE_KEY: Final = "code.tar.gz"
CODE_DIR: Final = "/mnt/frameworkcode"
# In-place restart of a gang (docs/reference/restart.md): the annotations of a Pod template, the condition by which the
# kubelet shows that it restarts all containers, and what it then says of each of them.
RESTART_ANNOTATION: Final = f"barrier.{GROUP}/restart"
PROGRESS_ANNOTATION: Final = f"barrier.{GROUP}/progress"
PROGRESS_PORT_ANNOTATION: Final = f"barrier.{GROUP}/progress-port"
HANG_ANNOTATION: Final = f"barrier.{GROUP}/hang"
HANG_LIMIT_ANNOTATION: Final = f"barrier.{GROUP}/hang-limit"
EXIT_ANNOTATION: Final = f"barrier.{GROUP}/exit"
TOGETHER: Final = "together"
RESTART_LIMIT_ANNOTATION: Final = f"barrier.{GROUP}/restart-limit"
IN_PLACE: Final = "in-place"
ALL_CONTAINERS_RESTARTING: Final = "AllContainersRestarting"
RESTARTING_ALL_CONTAINERS: Final = "RestartingAllContainers"
# Ranks that follow the topology of nodes (docs/groups.md): what a Pod template asks for, and the annotation of a Pod
# whose barrier, of the injector, reads the order of ranks in a roster.
RANK_TOPOLOGY_ANNOTATION: Final = f"{GROUP}/rank-topology"
BARRIER_READS_ANNOTATION: Final = f"barrier.{GROUP}/reads"
READS_ORDER: Final = "order"
# Extended resources that are GPUs: nvidia.com/gpu, amd.com/gpu.
GPU_SUFFIX: Final = "/gpu"
ROSTER_KEY: Final = "roster"
ROSTER_GZIP_KEY: Final = "roster.gz"
ROSTER_ANNOTATION: Final = f"{GROUP}/roster"


def config_map_name(framework: str) -> str:
    """Return the name of a Framework's ConfigMap, the same in each attempt."""
    return f"{framework}-attempt"


def pod_name(framework: str, role: str, index: int) -> str:
    """Return the name of a Task's Pod, the same in each attempt."""
    return f"{framework}-{role}-{index}"


def workload_name(framework: str, uid: str) -> str:
    """Return the name of a Framework's Workload, the same in each attempt, and another one for the next Framework."""
    return f"framework-{framework}-{hashlib.blake2b(uid.encode(), digest_size=4).hexdigest()}"


def pod_group_name(framework: str, attempt_id: int, role: str = "") -> str:
    """Return the name of the group of an attempt's Pods, or of those of one role, which fits into a label."""
    name = "-".join(filter(None, (config_map_name(framework), str(attempt_id), role)))
    if len(name) <= MAX_LABEL:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=5).hexdigest()
    return f"{name[: MAX_LABEL - 1 - len(digest)]}-{digest}"


def pod_group_prefix(framework: str) -> str:
    """Return how the names of all groups of a Framework begin."""
    return f"{config_map_name(framework)}-"[:50]


def roster_access_name(framework: str) -> str:
    """Return the name of the Role and RoleBinding by which a Framework's Pods may read its roster."""
    return f"{framework}-roster"


def attempt_instance_uid(attempt_id: int | str, object_uid: str) -> str:
    """Return the FrameworkAttemptInstanceUID for a ConfigMap's UID, the TaskAttemptInstanceUID for a Pod's."""
    return f"{attempt_id}_{object_uid}"
