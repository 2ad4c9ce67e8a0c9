"""Every name that other programs rely on, in one place (source: the Framework API, section 1 and 4)."""

from __future__ import annotations

from typing import Final

GROUP: Final = "frameworkcontroller.microsoft.com"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "Framework"
PLURAL: Final = "frameworks"
CRD_NAME: Final = f"{PLURAL}.{GROUP}"
CRD_PATH: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD_NAME}"
FRAMEWORKS_PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
NAME_PATTERN: Final = r"^[a-z0-9]{1,63}$"

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

# The barrier's side: the label that asks for it and the roster that it reads.
BARRIER_LABEL: Final = f"{GROUP}/barrier"
BARRIER_CONTAINER: Final = "frameworkbarrier"
BARRIER_WAIT_FOR: Final = "FB_WAIT_FOR"
BARRIER_WAIT_FOR_FLAG: Final = "--wait-for"
BARRIER_WAIT_FOR_ANNOTATION: Final = f"barrier.{GROUP}/wait-for"
ARRIVED: Final = "arrived"
ROSTER_KEY: Final = "roster"
ROSTER_GZIP_KEY: Final = "roster.gz"
ROSTER_ANNOTATION: Final = f"{GROUP}/roster"


def config_map_name(framework: str) -> str:
    """The ConfigMap of a Framework: the same for each of its attempts."""
    return f"{framework}-attempt"


def pod_name(framework: str, role: str, index: int) -> str:
    """The Pod of a Task: the same for each of its attempts."""
    return f"{framework}-{role}-{index}"


def roster_access_name(framework: str) -> str:
    """The Role and RoleBinding that let a Framework's Pods read its roster."""
    return f"{framework}-roster"


def attempt_instance_uid(attempt_id: int, object_uid: str) -> str:
    """FrameworkAttemptInstanceUID from a ConfigMap's UID, TaskAttemptInstanceUID from a Pod's."""
    return f"{attempt_id}_{object_uid}"
